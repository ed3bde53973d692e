"""The page docs/paper.md: every table and figure, from the lines alone."""

from __future__ import annotations

from pathlib import Path

from experiments import special_tables, specs, tables
from experiments.cells import Results
from experiments.figures import draw
from experiments.specs import Spec
from experiments.tables import Lines

PAGE = Path(__file__).parents[1] / "docs" / "paper.md"
RENDERERS = {**tables.KINDS, **special_tables.KINDS, "curves": draw}
HEAD = Path(__file__).parent / "specs" / "head.md"


def part(spec: Spec, lines: Lines) -> str:
    """Return a spec's heading, table or figure, and note."""
    body = RENDERERS[spec.kind](spec, lines)
    blocks = [f"## {spec.title}", f"Paper: {spec.paper}. Spec: `{spec.name}`.", body]
    return "\n\n".join([*blocks, spec.note.strip()]).rstrip()


def write(results: Results) -> None:
    """Write the whole page."""
    lines = Lines(results.read())
    parts = [part(specs.read(name), lines) for name in specs.names()]
    PAGE.write_text("\n\n".join([HEAD.read_text().strip(), *parts]) + "\n")
