"""Laws of the explanations of a fitted model."""

from __future__ import annotations

import numpy as np

from tests.fuzz.laws import Trial, close, require

N_FRAMES = 2  # components that are read
PATH_SHARE = 20  # one table of so many has its path fitted


def check_all(trial: Trial) -> None:
    """Check every law of an explanation."""
    for law in (local_scores, shapley, interactions, shares, frames, paths):
        law(trial)


def local_scores(trial: Trial) -> None:
    """Check that the components of an explained row add up to its raw score."""
    explained = trial.explained
    found = trial.model.intercept + explained.scores.sum(1) + explained.remainder
    require(close(found, trial.fresh_raw, trial.scale), "explanations sum to the raw score")
    flat = trial.estimator.transform(trial.fresh_table)
    require(flat.shape[1] == len(trial.estimator.get_feature_names_out()), "names of transform")
    require(np.array_equal(flat.ravel(), explained.scores.ravel()), "transform")


def shapley(trial: Trial) -> None:
    """Check that each component is shared equally by its features."""
    scores = trial.scores
    found = trial.estimator.shap_values(trial.fresh_table)
    expected = np.zeros((len(scores), trial.model.encoder.n_features, *scores.shape[2:]))
    for index, component in enumerate(trial.model.components):
        for feature in component:
            expected[:, feature] += scores[:, index] / len(component)
    if trial.model.remainder is None:
        require(close(found.values, expected, trial.scale), "Shapley values")
    total = found.base_values + found.values.sum(1)
    require(close(total, trial.fresh_raw, trial.scale), "Shapley values sum to the raw score")


def interactions(trial: Trial) -> None:
    """Check that Shapley interaction values sum to Shapley values, and are symmetric."""
    explained = trial.explained
    both = explained.shap_interaction_values().values
    single = explained.shap_values().values
    require(close(both.sum(2), single, trial.scale), "Shapley interactions sum to Shapley values")
    require(np.array_equal(both, both.swapaxes(1, 2)), "Shapley interactions are symmetric")


def shares(trial: Trial) -> None:
    """Check that no importance is negative, and that shares of the variance sum to one."""
    explained = trial.estimator.explain()
    importance, sobol = explained.importance(), explained.sobol()
    require(all(value >= 0 for value in importance.values()), "importance")
    total = sum(sobol.values())
    learned = any(np.abs(table).max() > 0 for table in trial.model.tables)
    require(abs(total - learned) < 1e-9, "shares of the variance")
    require(all(0 <= index.total <= 1 + 1e-9 for index in explained.sobol_indices().values()),
            "Sobol indices")  # fmt: skip


def frames(trial: Trial) -> None:
    """Check that every component is readable: as a frame, as terms and in words."""
    explained = trial.explained
    components = list(zip(trial.model.components, trial.model.tables, strict=True))
    for place in trial.rng.integers(len(components), size=N_FRAMES):
        features, table = components[place]
        frame = explained.component(features).to_frame()
        require(len(frame) == table.size, "one line per node and output")
        numbers = ["effect", "lower", "upper"] if trial.model.evidence.posteriors else ["effect"]
        require(np.isfinite(frame[numbers]).all(axis=None), "finite frames")
    require(len(trial.model.terms()) == len(trial.model.components), "terms of every component")
    if len(trial.model.intercepts) == 1:
        for row in explained.reasons():
            require(all(str(reason) for reason in row), "reasons in words")
        explained.concurvity()
    require(repr(explained) and repr(trial.model), "repr")


def paths(trial: Trial) -> None:
    """Check that the models of the path grow, and that the fitted one can be made again."""
    if trial.case.seed % PATH_SHARE:
        return
    path = trial.estimator.path()
    sizes = [step.n_components for step in path.steps]
    require(sizes == sorted(set(sizes)) and path.chosen <= sizes[-1], "sizes of the path")
    chosen = path.model(path.chosen)
    same = all(map(np.array_equal, chosen.tables, trial.model.tables))
    count = len(chosen.components)  # a shape adds subsets of the chosen components
    require(same and path.chosen <= count == len(trial.model.components), "the chosen model")
    sparse = path.model(sizes[0])
    require(all(sparse.certificate(name).holds for name in sparse.shapes), "shapes of the path")
