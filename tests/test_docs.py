"""Documentation that runs: Python blocks, links, the API page, recipes and docstrings."""

from __future__ import annotations

import inspect
import re
import warnings
from dataclasses import replace
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import matplotlib.pyplot as plt
import numpy as np
import pytest

import tpnn
from tpnn import TPNNRegressor
from tpnn.cli.command import make_parser
from tpnn.estimators import parameters
from tpnn.lifecycle.distill import FidelityWarning
from tpnn.loss import objectives as losses

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = ("_build", "api", "recipes")  # by make docs
SOURCES = [page for page in DOCS.rglob("*.md") if page.relative_to(DOCS).parts[0] not in GENERATED]
PAGES = sorted([*ROOT.glob("*.md"), *SOURCES])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
RECIPES = sorted((ROOT / "examples").glob("plot_*.py"))
LONGEST_RECIPE = 120  # lines
JOBS = ("credit_risk", "insurance_pricing", "survival", "serving", "exploration", "images")
WORDS = (
    "feature", "level", "node", "mass", "component", "order", "pair", "triple", "bag", "round",
    "visit", "raw score", "held-out rows", "table", "grid of values",
)  # fmt: skip
RECORDS = (  # what methods return
    "explain.selection_path.SelectionPath",
    "explain.selection_path.Step",
    "model.evidence.Baseline",
    "anova.shapes.Certificate",
    "model.evidence.Evidence",
    "model.evidence.ComponentTests",
    "model.evidence.RandomIntercepts",
    "model.evidence.ComponentTest",
    "model.evidence.FitStatistics",
    "uncertainty.linear_model.ZeroTest",
    "model.model.Basis",
    "model.summary.Summary",
    "model.summary.SummaryLine",
    "explain.component_table.ComponentTable",
    "explain.contributions.Reason",
    "explain.concurvity.Concurvity",
    "explain.contributions.Contrast",
    "explain.explanation.SobolIndices",
    "explain.explanation.JointShare",
    "explain.response.ScaledEffect",
    "explain.stability.Stability",
    "explain.report.writing.Report",
    "export.sheets.rating.RatingTables",
    "export.sheets.card_use.LostPoints",
    "lifecycle.distill.FidelityWarning",
    "lifecycle.compare.compare.Comparison",
    "lifecycle.compare.by_rows.RowComparison",
    "lifecycle.fairness.Fairness",
    "lifecycle.monitor.Drift",
    "lifecycle.recourse.recourse.Recourse",
    "lifecycle.validate.validate.Validation",
    "lifecycle.validate.challenger.Challenge",
    "estimators.verify.Verification",
    "lifecycle.validate.robustness.Robustness",
)
HARD_TO_READ = ("stands? out of the noise", "leaves? over", "likes? best", "values that are there")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def run(page: Path) -> dict[str, object]:
    """Run the Python blocks of a page, one after the other, and return what they define."""
    names: dict[str, object] = {}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, name_of(page), "exec"), names)
    plt.close("all")
    return names


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=name_of)
def test_python_blocks_run(page: Path, folder: Path) -> None:
    for package in ("torch", "onnxruntime", "skl2onnx"):
        if package in page.read_text():
            pytest.importorskip(package)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FidelityWarning)
        run(page)


def test_every_page_for_users_has_code() -> None:
    for name in ("start", "guide", "tasks", "interactions", "explain", "solvers"):
        assert BLOCK.search((DOCS / f"{name}.md").read_text()), name


def test_the_loss_of_the_developers_page_trains(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registered as the page says, it resists outliers that squared error follows."""
    pytest.importorskip("torch")
    objective = run(DOCS / "develop" / "loss.md")["log_cosh_objective"]
    monkeypatch.setitem(losses.OBJECTIVES, "log_cosh", objective)
    given = make_parser().parse_args(["fit", "a.csv", "--target", "y", "--objective", "log_cosh"])
    assert given.objective == "log_cosh"
    assert '"log_cosh": numbers with outliers' in parameters.objective_entries()
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 1))
    y = X[:, 0] + np.where(rng.random(600) < 0.05, 50.0, 0.0)
    models = {
        name: TPNNRegressor(objective=name, order=1, n_bags=2, random_state=0).fit(X, y).model_
        for name in ("log_cosh", "squared_error")
    }
    errors = {name: np.abs(model.predict(X) - X[:, 0]).mean() for name, model in models.items()}
    assert errors["log_cosh"] < 0.1 * errors["squared_error"]
    model = models["log_cosh"]
    assert model.summary().header["loss"] == "log_cosh"
    effect = model.edit("x0", scale=0.5, X=X, y=y).log()[0]["effect"]
    assert effect["loss"] == tpnn.metrics.measure(model, X, y).scores[0].name == "log_cosh"
    lower, upper = model.predict_interval(X)
    assert (lower < upper).all()
    monkeypatch.setitem(losses.OBJECTIVES, "log_cosh", replace(objective, has_intervals=False))
    other = TPNNRegressor(objective="log_cosh", order=1, n_bags=2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"^predict_interval: this model was not calibrated"):
        other.predict_interval(X)


def local_links(page: Path) -> list[str]:
    return re.findall(r"\]\((?!http)([^)#]+)(?:#[^)]*)?\)", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in local_links(page):
        if target.split("/")[0] == "recipes":  # written by make docs
            recipe = ROOT / "examples" / Path(target).with_suffix(".py").name
            assert recipe.exists() or target == "recipes/index.rst", target
        else:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_modules_that_pages_name_exist(page: Path) -> None:
    """By a path such as ``room/module.py`` or ``tests/test_docs.py``, or by a name alone."""
    tops = ("src", "tests", "benchmarks")
    files = [*ROOT.glob("*.py"), *(file for top in tops for file in (ROOT / top).rglob("*.py"))]
    for module in re.findall(r"`([\w/]+\.py)`", page.read_text()):
        assert any(f"/{name_of(file)}".endswith(f"/{module}") for file in files), module


def on_the_api_page() -> set[str]:
    return set(re.findall(r"^   ([\w.]+)$", (DOCS / "api.md").read_text(), re.MULTILINE))


def test_the_api_page_has_every_public_name() -> None:
    expected = set()
    for name in tpnn.__all__:
        value = getattr(tpnn, name)
        expected |= public_functions(name, value) if isinstance(value, ModuleType) else {name}
    expected |= public_functions("lifecycle.edit", import_module("tpnn.lifecycle.edit"))
    assert on_the_api_page() == expected | set(RECORDS)


@pytest.mark.parametrize("name", RECORDS)
def test_records_are_documented_where_they_live(name: str) -> None:
    module, _, own = f"tpnn.{name}".rpartition(".")
    kind = getattr(import_module(module), own)
    assert kind.__module__ == module
    fields = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "_fields", ())
    texts = [inspect.cleandoc(base.__doc__ or "") for base in kind.__mro__[:-1]]
    documented = re.findall(r"^(\w+) : ", "\n".join(texts), re.MULTILINE)
    assert set(fields) == set(documented)


def public_functions(name: str, module: ModuleType) -> set[str]:
    """What a public module offers: its ``__all__``, or its own functions without underscore."""
    own = getattr(module, "__all__", None) or [
        function
        for function, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not function.startswith("_")
    ]
    return {f"{name}.{function}" for function in own}


def test_the_glossary_has_every_word() -> None:
    terms = re.findall(r"^([a-z][a-z -]+)\n  \S", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert set(WORDS) <= set(terms)


def test_there_is_a_recipe_for_each_job() -> None:
    assert [re.sub(r"plot_\d_", "", recipe.stem) for recipe in RECIPES][: len(JOBS)] == list(JOBS)
    for recipe in RECIPES:
        assert recipe.read_text().count("\n") <= LONGEST_RECIPE, recipe.name
        compile(recipe.read_text(), recipe.name, "exec")


@pytest.mark.parametrize("name", ["TPNNRegressor", "Grow", "Descent", "TPNNHead"])
def test_every_parameter_is_documented(name: str) -> None:
    if name == "TPNNHead":
        pytest.importorskip("torch")
        import_module("tpnn.solvers.descent.head")
    kind = attrgetter(name)(tpnn)
    documented = set(re.findall(r"^(\w+) : ", inspect.getdoc(kind) or "", re.MULTILINE))
    given = inspect.signature(kind).parameters.values()
    named = {parameter.name for parameter in given if parameter.kind != parameter.VAR_KEYWORD}
    assert named <= documented


def test_public_names_exist() -> None:
    for name in tpnn.__all__:
        assert getattr(tpnn, name) is not None
    assert set(dir(tpnn)) == set(tpnn.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = tpnn.nothing


@pytest.mark.parametrize("phrase", HARD_TO_READ)
def test_phrases_that_were_hard_to_read_do_not_come_back(phrase: str) -> None:
    code = (path for kind in ("*.py", "*.js", "*.html") for path in (ROOT / "src").rglob(kind))
    pattern = re.compile(phrase.replace(" ", r"\s+"), re.IGNORECASE)
    texts = {name_of(path): path.read_text() for path in (*SOURCES, ROOT / "README.md", *code)}
    assert [name for name, text in texts.items() if pattern.search(text)] == []


def test_the_site_shows_what_blocks_print_return_and_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    pytest.importorskip("matplotlib")
    output = import_module("block_output")
    blocks = [
        "a = 0.12345678\nprint('printed')\na",
        "b = a",
        "from pylab import plot\nplot([a])[0]",
    ]
    first, second, third = output._outputs(blocks)
    assert "\n\nprinted\n0.123457\n```" in first
    assert not second
    assert "data:image/png;base64," in third
    assert "code-block" not in third
