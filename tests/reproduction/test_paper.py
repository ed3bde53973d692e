"""Experiments on tiny data: the models' interface, the runner, the loaders, the page."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the benchmarks of the paper need torch")

from benchmarks.common import cells, decompositions, scores  # noqa: E402
from benchmarks.common.cells import Cell  # noqa: E402
from benchmarks.common.interface import Additive, Rows, Task  # noqa: E402
from benchmarks.common.models.descent import Schedule  # noqa: E402
from benchmarks.common.models.nam import nam  # noqa: E402
from benchmarks.common.models.nid import strongest_pairs  # noqa: E402
from benchmarks.common.models.nodegam import NodeGam, entmax, entmoid  # noqa: E402
from benchmarks.common.models.sum_to_zero import SumToZero  # noqa: E402
from benchmarks.paper import coded, formats, runner, specs, writing  # noqa: E402
from benchmarks.paper.__main__ import main  # noqa: E402
from benchmarks.paper.families import Setting, build, members  # noqa: E402
from benchmarks.paper.results import FILE, Lines, Results  # noqa: E402
from benchmarks.paper.special import attributes, concepts  # noqa: E402
from benchmarks.paper.special.images import CONCEPTS, draw  # noqa: E402
from benchmarks.paper.special.rate import measure as measure_rate  # noqa: E402
from benchmarks.paper.special.shap_values import anova_shap  # noqa: E402
from benchmarks.paper.tables import Summary, _cell  # noqa: E402
from benchmarks.paper.writing import HEAD  # noqa: E402
from tpnn import stability_scores  # noqa: E402

TASKS = {"regression": Task("regression"), "binary": Task("binary"), "multi": Task("multiclass", 3)}
ADDITIVE = ("tpnn2", "paper1-k5", "paper2-k5", "relu1-k5", "nbmtpnn2-k5", "gamtpnn2-k5", "nam2",
            "nbm2", "linear", "nam2-centred")  # fmt: skip


def sample(task: Task, n: int = 300, seed: int = 0) -> tuple[Rows, Rows]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    signal = 3 * X[:, 0] + 4 * (X[:, 1] - 0.5) * (X[:, 2] - 0.5) + 0.1 * rng.normal(size=n)
    cuts = {1: [0.5], 3: [1 / 3, 2 / 3]}[task.n_outputs]
    classes = np.digitize(signal, np.quantile(signal, cuts))
    y = signal if task.kind == "regression" else classes
    return Rows(X[:240], y[:240]), Rows(X[240:], y[240:])


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize("name", ADDITIVE)
def test_components_and_intercept_sum_to_the_raw_scores(name: str, task: Task) -> None:
    training, validation = sample(task)
    model = build(name, Setting("wine", task, 0, None, True)).fit(training, validation)
    assert isinstance(model, Additive)
    raw, parts = model.raw_scores(validation.X), model.component_scores(validation.X)
    assert raw.shape == (60, task.n_outputs)
    assert parts.shape == (60, len(model.components), task.n_outputs)
    np.testing.assert_allclose(model.intercept + parts.sum(1), raw, atol=1e-4)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize("name", ["dnn-deep", "nodegam1", "nodegam2", "linear", "paper2-k5"])
def test_models_beat_a_constant(name: str, task: Task) -> None:
    training, validation = sample(task)
    model = build(name, Setting("wine", task, 0, None, True)).fit(training, validation)
    if task.kind == "regression":
        constant = scores.loss(task, validation.y, np.full((60, 1), training.y.mean()))
    else:
        constant = float(np.log(2 if task.kind == "binary" else 3))
    assert scores.loss(task, validation.y, model.raw_scores(validation.X)) < 0.95 * constant


@pytest.mark.parametrize(
    ("name", "package"),
    [("ebm2", "interpret"), ("spline1", "pygam"), ("xgboost", "xgboost"), ("tree", "optuna")],
)
def test_other_libraries(name: str, package: str) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed, see the group benchmarks")
    task = Task("regression")
    training, validation = sample(task)
    model = build(name, Setting("wine", task, 0, None, True)).fit(training, validation)
    raw = model.raw_scores(validation.X)
    assert np.corrcoef(raw[:, 0], validation.y)[0, 1] > 0.6
    if isinstance(model, Additive):
        total = model.intercept + model.component_scores(validation.X).sum(1)
        np.testing.assert_allclose(total, raw, atol=1e-6)


def test_a_model_is_the_same_for_the_same_seed() -> None:
    task = Task("regression")
    training, validation = sample(task)
    plan = Schedule(max_steps=20, patience=20)
    state = torch.get_rng_state()
    one, two = (nam(task, 2, (8,), seed=3, schedule=plan).fit(training, validation) for _ in "ab")
    np.testing.assert_array_equal(one.raw_scores(training.X), two.raw_scores(training.X))
    assert torch.equal(torch.get_rng_state(), state)  # nothing depends on the global seed


@pytest.mark.skipif(not torch.cuda.is_available(), reason="replayed training needs a card")
@pytest.mark.parametrize("name", ["nam2", "paper2-k10", "nodegam2"])
def test_replayed_training_is_plain_training(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches of different size an epoch: two recordings, and one of the validation loss."""
    task = Task("regression")
    training, validation = sample(task)
    plan = Schedule(batch_size=160, max_steps=40, patience=40)
    monkeypatch.setattr("benchmarks.paper.families.QUICK", plan)
    setting = Setting("wine", task, 0, None, True)
    replayed = build(name, setting).fit(training, validation).raw_scores(validation.X)
    monkeypatch.setattr("benchmarks.common.models.descent.WARM", np.inf)
    plain = build(name, setting).fit(training, validation).raw_scores(validation.X)
    np.testing.assert_allclose(replayed, plain, rtol=1e-3, atol=1e-3)


def test_post_processing_moves_values_but_changes_no_sum() -> None:
    task = Task("regression")
    training, validation = sample(task)
    plain = nam(task, 2, (8, 8), schedule=Schedule(max_steps=40, patience=40))
    unique = SumToZero(plain).fit(training, validation)
    np.testing.assert_allclose(
        unique.intercept + unique.component_scores(validation.X).sum(1),
        plain.raw_scores(validation.X),
        atol=1e-5,
    )
    for index, component in enumerate(unique.components):
        for feature in component:  # the mean along one feature, the others as in some row
            nodes, masses = unique.grids[feature]
            rows = np.tile(training.X[3], (len(nodes), 1))
            for other in component:
                rows[:, other] = unique.grids[other].nodes[5]
            rows[:, feature] = nodes
            values = unique.component_scores(rows)[:, index, 0]
            assert abs(masses @ values) < 1e-4 * (1 + np.abs(values).max())


def test_entmax_and_entmoid() -> None:
    logits = 3 * torch.randn(50, 7, generator=torch.Generator().manual_seed(0)).double()
    p = entmax(logits)
    torch.testing.assert_close(p.sum(-1), torch.ones(50).double())
    assert (p == 0).any()
    for row, expected in zip(logits[:5], p[:5], strict=True):  # by bisection of tau
        low, high = row.max() / 2 - 1, row.max() / 2
        for _ in range(80):
            tau = (low + high) / 2
            low, high = (tau, high) if ((row / 2 - tau).clamp(0) ** 2).sum() > 1 else (low, tau)
        torch.testing.assert_close((row / 2 - tau).clamp(0) ** 2, expected, atol=1e-6, rtol=1e-6)
    x = torch.linspace(-4, 4, 33).double()
    pairs = entmax(torch.stack([x, torch.zeros_like(x)], -1))
    torch.testing.assert_close(entmoid(x), pairs[:, 0], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_nodegam_has_no_interaction_beyond_its_order(order: int) -> None:
    """Differences along order + 1 features at once vanish in a model of that order."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = NodeGam(3, 1, order, n_layers=3, depth=3, n_trees=20).double().eval()
        for layer in network.layers:
            layer.earlier.data.normal_()
            layer.responses.data.normal_()
    low, high = torch.full((3,), -0.7).double(), torch.full((3,), 0.9).double()

    def difference(size: int) -> float:
        total = 0.0
        for count in range(size + 1):
            for chosen in combinations(range(size), count):
                x = low.clone()
                x[list(chosen)] = high[list(chosen)]
                total += (-1) ** (size - count) * float(network(x[None]).detach())
        return abs(total)

    assert difference(order) > 1e-3
    assert difference(order + 1) < 1e-9


def test_nid_finds_a_planted_pair() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6))
    rows = Rows(X, X[:, 1] * X[:, 4])
    plan = Schedule(batch_size=128, max_steps=300, patience=300)
    found = strongest_pairs(Task("regression"), Rows(*(a[:500] for a in rows)),
                            Rows(*(a[500:] for a in rows)), 1, plan)  # fmt: skip
    assert found == [(1, 4)]


def test_stability_is_the_papers_formula() -> None:
    rng = np.random.default_rng(0)
    fits = rng.normal(size=(10, 7, 2))
    expected = np.zeros(2)
    for component in range(2):
        for i in range(7):
            values = fits[:, i, component]
            expected[component] += ((values - values.mean()) ** 2).sum() / (values**2).sum() / 7
    np.testing.assert_allclose(stability_scores(fits), expected)
    assert stability_scores(np.zeros((3, 4, 1)))[0] == 0


def test_ranks_of_the_published_numbers() -> None:
    """The paper's own numbers give close to the paper's own ranks."""
    spec = specs.read("prediction")
    published = spec.options["published_ranks"]
    numbers = np.array([[spec.published[d][m][0] for m in published] for d in spec.data])
    higher = np.array([d not in ("calhousing", "wine", "online", "abalone") for d in spec.data])
    ranks = scores.average_ranks(numbers, higher)
    np.testing.assert_allclose(ranks, list(published.values()), atol=0.8)


def test_a_killed_run_continues_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Cell] = []

    def measured(cell: Cell, results: Results, quick: bool) -> dict[str, Any]:
        ran.append(cell)
        if cell.model == "bad":
            raise RuntimeError("too bad")
        return {"scores": {"rmse": 1.0}, "validation_loss": 1.0}

    monkeypatch.setattr("benchmarks.paper.runner.measure", measured)
    cells = [Cell("wine", model, split) for split in range(2) for model in ("linear", "bad")]
    results = Results(tmp_path)
    assert runner.run(cells[:2], results) == 1
    with (tmp_path / FILE).open("a") as file:
        file.write('{"data": "wine", "model": "linear", "spl')  # killed while writing
    lines = results.read()
    assert [("failed" in line) for line in lines] == [False, True]
    assert {"commit", "versions", "date", "device"} <= set(lines[0])
    with (tmp_path / FILE).open("a") as file:
        file.write("\n")
    ran.clear()
    runner.run(cells, results)
    assert ran == [cells[1], cells[2], cells[3]]  # what failed, and what was never begun


def test_the_documented_command_measures_every_cell_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines that the repository has do not count as measured."""
    (command,) = re.findall(r"python -m benchmarks.paper (run .*?)\s*#", HEAD.read_text())
    started: list[Cell] = []

    def start(cells: list[Cell], results: Results, *_: Any, **__: Any) -> int:
        started.extend(set(cells) - results.finished())
        return 0

    monkeypatch.setattr("benchmarks.paper.__main__.run", start)
    monkeypatch.setattr("benchmarks.paper.__main__.add_stability", lambda *_: None)
    monkeypatch.setattr("benchmarks.paper.__main__.RECOMPUTED", tmp_path)
    monkeypatch.setattr("sys.argv", ["paper", *command.split()])
    assert main() == 0
    assert len(started) == len(specs.read("stability").cells(10)) > 100


def test_quick_run_and_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From cells through lines and stability scores to a table."""
    results = Results(tmp_path)
    cells = [Cell("wine", model, split) for split in range(2) for model in ("paper1-k10", "nam1")]
    assert runner.run(cells, results, quick=True) == 0
    runner.add_stability(cells, results)
    lines = Lines(results.read())
    assert lines.stability["wine", "nam1"]["n_fits"] == 2
    text = writing.part(specs.read("stability"), lines)
    assert "NA¹M" in text
    assert "n=2" in text
    monkeypatch.setattr("benchmarks.paper.special_tables.FOLDER", tmp_path)
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    assert "figure_wine.png" in writing.part(specs.read("figure_wine"), lines)
    assert (tmp_path / "figure_wine.png").exists()


@pytest.mark.parametrize("lines", [[], Results().read()], ids=["no lines", "all lines"])
def test_the_page_needs_lines_only(
    lines: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    monkeypatch.setattr("benchmarks.paper.special_tables.FOLDER", tmp_path)

    def absent(*_: Any) -> None:
        raise FileNotFoundError("no data here")

    for loads in ("table", "split", "probes"):
        monkeypatch.setattr(f"benchmarks.paper.coded.{loads}", absent)
    for name in specs.names():
        assert specs.read(name).title in writing.part(specs.read(name), Lines(lines))


def test_the_latest_line_of_a_cell_counts(tmp_path: Path) -> None:
    def line(date: str, **what: Any) -> dict[str, Any]:
        return {"data": "wine", "model": "nam1", "split": 0, "date": date, **what}

    new = line("2026-02-01T10:00:00+00:00", scores={"rmse": 1.0})
    old = line("2026-02-01", scores={"rmse": 2.0})
    broken = line("2026-03-01", failed="no memory")
    results = Results(tmp_path)
    for each in (new, broken, old):
        results.append(each)
    assert results.read() == [new, broken]  # what failed later takes nothing away
    assert results.finished() == {Cell("wine", "nam1", 0)}
    results.pack()
    assert cells.read(results.path) == [new, broken]


def test_components_are_kept_at_the_probes(tmp_path: Path) -> None:
    """What a run leaves behind is what the stability score reads."""
    results = Results(tmp_path)
    cell = Cell("wine", "linear", 0)
    assert runner.run([cell], results, quick=True) == 0
    kept = decompositions.read(results.components(cell))
    assert kept.components == [(j,) for j in range(11)]
    assert kept.scores.shape == (coded.PROBES, 11, 1)


def test_every_model_of_every_spec_can_be_built() -> None:
    for name in specs.names():
        for cell in specs.read(name).cells(1):
            if cell.data in coded.NAMES and not cell.model.startswith("ebm"):
                build(cell.model, Setting(cell.data, Task("regression"), 0))
    with pytest.raises(ValueError, match="model: must begin with one of"):
        build("nothing", Setting("wine", Task("regression"), 0))
    with pytest.raises(ValueError, match="NAME: must be one of"):
        specs.read("nothing")


def test_grid_is_chosen_on_validation_rows() -> None:
    def line(model: str, held_out: float, rmse: float) -> dict[str, Any]:
        return {"data": "wine", "model": model, "split": 0, "scores": {"rmse": rmse},
                "validation_loss": held_out}  # fmt: skip

    lines = Lines([line("paper1-k10", 0.3, 0.5), line("paper1-k30", 0.2, 0.9)])
    assert lines.chosen("wine", "paper1") == "paper1-k30"  # though worse on test rows
    assert members("dnn", "wine") == ["dnn-wide", "dnn-middle", "dnn-deep"]


def test_a_number_far_from_the_papers_is_marked() -> None:
    assert "†" in _cell(Summary(0.60, 0.01, 10), [0.50, 0.01], 10)
    assert "†" not in _cell(Summary(0.503, 0.01, 10), [0.50, 0.01], 10)
    assert "†" not in _cell(Summary(0.60, 0.01, 10), [0.50, 0.01], 10, label="a subset")
    assert _cell(None, [0.5, 0.01], 10).startswith("–")


@pytest.mark.parametrize(
    ("name", "n_features", "text"),
    [
        ("microsoft", 136, "2 qid:10 1:3 136:0.5\n0 qid:10 2:1.5\n"),
        ("yahoo", 699, "4 qid:1 10:0.25 699:1\n1 qid:2 5:0.75\n"),
    ],
)
def test_ranking_files(tmp_path: Path, name: str, n_features: int, text: str) -> None:
    for file in formats.RANKING_FILES[name]:
        path = tmp_path / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    X, y = formats.read_ranking(tmp_path / name, name)
    assert X.shape == (6, n_features)
    assert y.tolist() == [float(text[0]), float(text.splitlines()[1][0])] * 3
    first = dict(pair.split(":") for pair in text.splitlines()[0].split()[2:])
    assert {str(j + 1): X[0, j] for j in np.flatnonzero(X[0])} == {
        key: float(value) for key, value in first.items()
    }


@pytest.mark.parametrize("name", ["microsoft", "yahoo"])
def test_tables_of_that_shape(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "SYNTHETIC_ROWS", {name: 200})
    X, y = formats.ranking_alike(name)
    assert X.shape == (200, formats.N_FEATURES[name])
    assert set(y) <= {0.0, 1.0, 2.0, 3.0, 4.0}


def test_celeba_layout(tmp_path: Path) -> None:
    (tmp_path / formats.CELEBA_ATTRIBUTES).write_text(
        "2\nBald Male No_Beard\n000001.jpg -1  1 -1\n000002.jpg  1 -1  1\n"
    )
    found = formats.read_celeba(tmp_path)
    assert found.attributes.loc["000001.jpg"].tolist() == [0, 1, 0]
    assert found.images is None
    (tmp_path / formats.CELEBA_IMAGES).mkdir()
    assert formats.read_celeba(tmp_path).images is not None


def test_drawn_images_show_their_concepts() -> None:
    images = draw(400, seed=0)
    flat = images.images.reshape(400, -1)
    for j, name in enumerate(CONCEPTS[:7]):  # the last, noise, changes no mean
        there = images.concepts[:, j] > 0
        gap = np.abs(flat[there].mean(0) - flat[~there].mean(0)).max()
        assert gap > 0.1, name
    again = draw(400, seed=0)
    np.testing.assert_array_equal(images.images, again.images)


def test_bottlenecks_learn_their_concepts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of training; a monotone head moves in no direction known to be wrong."""
    plan = Schedule(learning_rate=5e-3, batch_size=256, max_steps=60, patience=60)
    monkeypatch.setattr(concepts, "QUICK", plan)
    for kind in ("jcbm", "icbm"):
        record = concepts.measure(kind, "head1-monotone", 0, True)
        assert record["wrong_directions"] == []
        assert record["scores"]["concepts"] > 0.75  # half of all concepts are there
        assert record["scores"]["accuracy"] > 0.6
        json.dumps(record)


def test_bottleneck_is_trained_jointly_or_in_two_steps() -> None:
    """The concepts alone teach the last step nothing; the joint loss teaches both."""
    images = draw(32, seed=0)
    for loss, reaches in ((concepts.joint_loss, True), (concepts.concept_loss, False)):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            last = concepts.classifier("head2", images)
            network = concepts.Bottleneck(1, 24, len(CONCEPTS), last)
        y = np.concatenate([images.concepts, images.labels[:, None]], 1)
        loss(network(torch.as_tensor(images.images)), torch.as_tensor(y)).backward()
        assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in last.parameters()) == (
            reaches
        )
        assert all(p.grad.abs().sum() > 0 for p in network.eyes.parameters())


def test_attributes_with_and_without_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    names = list(attributes.CELEBA_DIRECTIONS)
    rng = np.random.default_rng(0)
    X = np.where(rng.random((400, len(names))) < 0.5, 1.0, -1.0)
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(np.int64)
    whole = coded.Table(X, names, y, Task("binary"), "")
    monkeypatch.setattr(coded, "table", lambda name: whole)
    record = attributes.measure("celeba_icbm", "head1-monotone", 0, True)
    for curve in record["curves"]:  # of attributes that speak for a woman
        assert (np.diff(curve) <= 1e-6).all()
    assert len(record["rows"]["raw"]) == len(record["rows"]["shown"])
    json.dumps(record)


def test_anova_shap_is_the_shapley_value_of_an_additive_model() -> None:
    training, validation = sample(Task("regression"))
    model = build("paper2-k5", Setting("wine", Task("regression"), 0, None, True))
    model.fit(training, validation)
    values = anova_shap(model, validation.X)
    total = model.raw_scores(validation.X)[:, 0] - model.intercept[0]
    np.testing.assert_allclose(values.sum(1), total, atol=1e-4)


def test_rate_of_the_theorem() -> None:
    for order in (1, 2):
        record = measure_rate("rate", f"order{order}", 0, False)
        assert record["scores"]["slope"] > 0.95
        json.dumps(record)


def test_splits_are_70_10_20_and_disjoint(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = coded.Table(np.arange(100.0)[:, None], ["x"], np.arange(100.0), Task("regression"), "")
    monkeypatch.setattr(coded, "table", lambda name: whole)
    parts = coded.split("wine", 0)
    assert [len(part.X) for part in parts] == [70, 10, 20]
    assert sorted(np.concatenate([part.y for part in parts])) == list(range(100))
    assert not np.array_equal(parts.test.y, coded.split("wine", 1).test.y)
