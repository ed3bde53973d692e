"""The page docs/paper.md: every table and figure, from the lines alone."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.environment import ROOT
from benchmarks.paper import special_tables, specs, tables
from benchmarks.paper.figures import draw
from benchmarks.paper.glance import glance
from benchmarks.paper.results import Lines, Results
from benchmarks.paper.specs import Spec
from benchmarks.paper.tables import title_of

PAGE = ROOT / "docs" / "paper.md"
RENDERERS = {**tables.KINDS, **special_tables.KINDS, "curves": draw, "glance": glance}
UNMEASURED = "not measured yet"
ONE_FIT = "no stability score, which takes two fits"
NOTES = Path(__file__).parent / "specs" / "notes.md"
HEAD = Path(__file__).parent / "specs" / "head.md"


def part(spec: Spec, lines: Lines) -> str:
    """Return a spec's heading, table or figure, and note."""
    body = RENDERERS[spec.kind](spec, lines)
    blocks = [f"## {spec.title}", f"Paper: {spec.paper}. Spec: `{spec.name}`.", body]
    return "\n\n".join([*blocks, spec.note.strip()]).rstrip()


def missing(lines: Lines) -> str:
    """Return the cells of all tables that are empty, each with its reason."""
    reasons: dict[tuple[str, str], set[str]] = {}
    for spec in map(specs.read, specs.names()):
        for data in spec.data:
            for model in spec.models:
                if reason := _reason(spec, lines, data, model):
                    reasons.setdefault((model, reason), set()).add(data)
    listed = [f"- {title_of(m)} (`{m}`) on {', '.join(sorted(d))}: {why}."
              for (m, why), d in reasons.items()]  # fmt: skip
    return "\n\n".join(["## Empty cells", "\n".join(listed) or "None."])


def _reason(spec: Spec, lines: Lines, data: str, model: str) -> str:
    """Return why a cell is empty, nothing where it is not."""
    if not lines.of(data, model):
        failure = lines.failures.get((data, lines.chosen(data, model)))
        return f"failed ({failure[:120]})" if failure else UNMEASURED
    stability = "stability" in spec.kind or "stability" in spec.options
    return ONE_FIT if stability and lines.stability_of(data, model) is None else ""


def write(results: Results) -> None:
    """Write the whole page; lines that later ones supersede go."""
    results.pack()
    lines = Lines(results.read())
    parts = [part(specs.read(name), lines) for name in specs.names()]
    blocks = [HEAD.read_text().strip(), *parts, missing(lines), NOTES.read_text().strip()]
    PAGE.write_text("\n\n".join(blocks) + "\n")
