"""The parameters of the estimators: which values each may take, and what it means."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import cleandoc, signature
from textwrap import fill, indent
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import numpy as np

from tpnn._utils.rules import FLAG, SHARE, Rule, is_count, is_number, is_positive, is_whole, one_of
from tpnn.anova.shapes import RANDOM, SHAPES, WRAPPED
from tpnn.loss.objectives import (
    OF_REGRESSION,
    OF_SURVIVAL,
    examples_of_parameters,
    is_objective,
    objectives_of,
)


def _are_feature_lists(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(s, list | tuple) for s in value)


def _are_components(value: Any) -> bool:
    listed = _are_feature_lists(value) and len(value) > 0
    return value is None or (listed and all(len(component) > 0 for component in value))


def _is_categorical(value: Any) -> bool:
    given = value if isinstance(value, Mapping) else {"features": value}
    features = given.get("features", "auto")
    are_features = one_of("auto")(features) or isinstance(features, list | tuple)
    is_known = given.keys() <= {"features", "min_rows", "missing"}
    is_known &= one_of("node", "impute")(given.get("missing", "node"))
    return are_features and is_known and is_count(given.get("min_rows", 1))


def _is_max_nodes(value: Any) -> bool:
    by_order = value if isinstance(value, Mapping) else {1: value}
    return all(is_count(o) and is_count(m) and 2 <= m <= 65535 for o, m in by_order.items())


INTERACTION_RULES: dict[str, Callable[[Any], bool]] = {
    "count": lambda value: one_of("auto", "all")(value) or is_count(value),
    "method": one_of("trees", "nid"),
    **dict.fromkeys(("required", "forbidden", "groups"), _are_feature_lists),
    "heredity": FLAG.holds,
}


def _is_interactions(value: Any) -> bool:
    if isinstance(value, Mapping):
        known = value.keys() <= INTERACTION_RULES.keys()
        return known and all(INTERACTION_RULES[key](part) for key, part in value.items())
    return INTERACTION_RULES["count"](value) or _are_feature_lists(value)


def _is_solver(value: Any) -> bool:
    if isinstance(value, str):
        return value in ("auto", "grow", "gradient")
    has = all(hasattr(value, name) for name in ("solve", "rules", "devices", "get_params"))
    return has and not isinstance(value, type)


def _is_random_state(value: Any) -> bool:
    if value is None or isinstance(value, np.random.RandomState | np.random.Generator):
        return True
    return is_whole(value) and 0 <= int(value) < 2**32


def _is_shape(value: Any) -> bool:
    if isinstance(value, str):
        return value in (*SHAPES, RANDOM)
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    return is_pair and value[0] == WRAPPED and is_positive(value[1])


def _are_shapes(value: Any) -> bool:
    return value is None or (isinstance(value, Mapping) and all(map(_is_shape, value.values())))


def _is_class_weight(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(is_positive(weight) for weight in value.values())
    return value is None or one_of("balanced")(value)


def _is_column(value: Any) -> bool:
    return value is None or isinstance(value, str) or (is_whole(value) and value >= 0)


class Parameter(NamedTuple):
    """The rule of a parameter, and what the docs say about it."""

    rule: Rule
    kind: str  # type and default
    text: str

    def entry(self, name: str) -> str:
        """Entry of a section of a docstring."""
        text = fill(" ".join(self.text.split()), LINE_LENGTH, break_on_hyphens=False)
        return f"{name} : {self.kind}\n{indent(text, '    ')}"


LINE_LENGTH = 92  # of the text of a parameter
AUTO_OR_COUNT = Rule(
    '"auto" or a whole number of at least 1', lambda x: one_of("auto")(x) or is_count(x), 8
)
COLUMN_WORDS = "None, or the name or position of a column of X"


def objective_entries(kinds: Sequence[str] = OF_REGRESSION) -> str:
    """List the losses of some kinds, as a part of the docstring of ``objective``."""
    lines = [f'"{name}": {known.words}.' for name, known in objectives_of(kinds).items()]
    examples = ", ".join(f"``{example}``" for example in examples_of_parameters(kinds))
    return " ".join([*lines, f"With a parameter: {examples}."])


PARAMETERS: dict[str, Parameter] = {
    "order": Parameter(
        AUTO_OR_COUNT._replace(example="auto"),
        'int or "auto", default="auto"',
        """Largest number of features in a component. "auto" means 3 (2 for the gradient solver),
        with a remainder for what is of higher order if held-out rows miss it; if ``interactions``
        lists components, it is the order of the largest, and if it is "all" or a number, pairs are
        what is meant: the order is 2. A model with a given order is its components and nothing
        else, unless ``remainder=True``.""",
    ),
    "interactions": Parameter(
        Rule(
            '"auto", "all", a number of pairs of at least 1, a list of tuples of feature names or '
            'indices ([] for none), or a dict with some of "count", "method" ("trees" or '
            '"nid"), "required", "forbidden", "groups" and "heredity"',
            _is_interactions,
            "all",
        ),
        '{"auto", "all"}, int, list of tuples or dict, default="auto"',
        """Components beyond the main effects. "auto" takes those of up to ``order`` features that
        have the largest variance in deep trees. A number takes that many of the best pairs. "all"
        takes every component up to ``order``, and a list of tuples of feature names or indices
        takes those interactions. A dict says more, with any of: "count" ("auto", "all" or a
        number); "method" ("trees", or "nid" to rank pairs by the weights of a neural network);
        "required" (tuples that are always included, of one feature too); "forbidden" (features that
        no component may contain together); "groups" (groups of features within which features may
        interact); "heredity" (True for a model that has all subsets of its components).""",
    ),
    "components": Parameter(
        Rule(
            "None, or a list of at least one tuple of feature names or indices, such as "
            '[("age",), ("age", "bmi")]',
            _are_components,
            [("age",), ("age", "bmi")],
        ),
        "list of tuples of feature names or indices, optional",
        """All components of the model, main effects included: ``[("age",), ("age", "bmi")]`` has no
        main effect of bmi. Growth fits the subsets of these components too and then leaves them
        out, so that no component takes over the effect of another; what is left is scaled to fit
        best.""",
    ),
    "max_components": Parameter(
        Rule("None or a whole number of at least 1", lambda x: x is None or is_count(x), 30),
        "int, optional",
        """Largest number of components of the model; by default 24 where a remainder is possible,
        and 300 where it is not. The components that contribute most to the fit of held-out rows are
        kept and fitted again without the others.""",
    ),
    "selection": Parameter(
        Rule(
            '"auto", "noise", "one_se" or "none"', one_of("auto", "noise", "one_se", "none"), "auto"
        ),
        '{"auto", "noise", "one_se", "none"}, default="auto"',
        """Which components to drop after fitting: "noise" drops those that held-out rows cannot
        tell from noise, "one_se" drops all that together cost less than a standard error, "none"
        drops nothing. "auto" is "noise" if the fit has to choose among the components of more than
        100 features and no remainder is possible, else "none". What is kept is fitted again without
        the others.""",
    ),
    "shapes": Parameter(
        Rule(
            f"None, or a dict from feature to one of {', '.join((*SHAPES, RANDOM))}, or to "
            f'("{WRAPPED}", a positive number)',
            _are_shapes,
            {"age": "increasing"},
        ),
        "dict from feature to shape, optional",
        """"increasing" or "decreasing" makes the whole model monotone in a feature, interactions
        included; "convex" and "concave" work likewise. "linear" makes the main effect a straight
        line, or a constant for every level, without any penalty, and leaves the interactions of the
        feature out. ``("periodic", 24)`` is for hours: values that differ by whole periods are the
        same, and curves end as they begin; ``periodic={"hour": 24}`` is short for it. "random" is
        for groups such as clinics: each level is a draw from a normal distribution, whose variance
        is estimated, and has no interactions; ``random=["clinic"]`` is short for it.
        ``model_.certificate(name)`` proves a shape.""",
    ),
    "categorical": Parameter(
        Rule(
            '"auto", a list of names or indices of columns whose numbers are labels, or a dict '
            'with such a value as "features", a whole number of at least 1 as "min_rows", and '
            '"node" or "impute" as "missing"',
            _is_categorical,
            ["zip_code"],
        ),
        '"auto", list of names or indices, or dict, default="auto"',
        """Columns whose numbers are labels without order. Strings and categories always are. A dict
        has "features" (such a list, or "auto") and "min_rows": levels with fewer rows share one
        node, where a row with an integer weight counts that many times. Its "missing" says what
        missing values are: "node", the default, gives them an effect of their own; "impute" draws
        them ten times from their distribution given all else, so that components and bands are
        those of the complete table, and in ``predict`` they contribute 0. ``missing="impute"`` is
        short for it.""",
    ),
    "offset": Parameter(
        Rule(f"{COLUMN_WORDS}; numbers themselves are passed to fit", _is_column, "log_exposure"),
        "str or int, optional",
        """Column of X, by name or position, that is a known part of the raw score of each row. It
        is not a feature. ``fit``, ``predict``, ``score`` and ``report`` read it from X, so
        cross-validation, searches and pipelines need no more than the table. The argument
        ``offset`` of these methods is the same as an array; only one of the two may be given.""",
    ),
    "solver": Parameter(
        Rule('"auto", "grow", "gradient", Grow(...) or Descent(...)', _is_solver, "grow"),
        '{"auto", "grow", "gradient"}, Grow or Descent, default="auto"',
        """:class:`Grow` adds bases where the residual still has structure; it is more accurate and
        faster. :class:`Descent` learns bases by gradient descent, as in the paper; it needs torch.
        "grow" and "gradient" are the two with their default parameters; "auto" is "grow".""",
    ),
    "n_bags": Parameter(
        AUTO_OR_COUNT,
        'int or "auto", default="auto"',
        """Number of models that are trained on different parts of the rows and averaged. "auto" is
        32 below 500 rows and 16 below 5,000, for several outputs fewer but at least 8, then 8 below
        4,000,000 rows, 4 below 20,000,000 and 2 beyond; gradient descent always trains 8.""",
    ),
    "max_nodes": Parameter(
        Rule(
            "a whole number from 2 to 65535, or a dict from order to such numbers",
            _is_max_nodes,
            256,
        ),
        "int or dict from order to int, default=256",
        "Largest number of nodes per feature; interactions use fewer.",
    ),
    "validation_fraction": Parameter(
        SHARE,
        "float, default=0.1",
        "Share of the rows that each bag holds out for early stopping.",
    ),
    "bands": Parameter(
        FLAG,
        "bool, default=True",
        """Whether to compute what bands need, which takes about a tenth of the time of a fit.
        Without it explanations have no bands, and components stay as they grew: they do not
        move towards their posterior means.""",
    ),
    "remainder": Parameter(
        Rule('"auto", True or False', lambda x: one_of("auto")(x) or FLAG.holds(x), "auto"),
        '{"auto", True, False}, default="auto"',
        """Whether the model may have a remainder besides its components. Where a fit finds its
        components by itself, deep trees find them: the largest components of the trees, about two
        dozen, are those of the model. All else that the trees say is the remainder, one
        function with a known share of the variance. "auto" keeps it if held-out rows miss it.
        With False the model is its components alone, of which it then has more.""",
    ),
    "device": Parameter(
        Rule('"auto", "cpu" or "cuda"', one_of("auto", "cpu", "cuda"), "auto"),
        '{"auto", "cpu", "cuda"}, default="auto"',
        """Where to train. "cuda" is an NVIDIA card, which needs CuPy with :class:`Grow` and torch
        with :class:`Descent`. "auto" uses a card if there is one; :class:`Grow`, whose model is the
        same on every device, from 200,000 rows on.""",
    ),
    "n_jobs": Parameter(
        Rule(
            "None or a whole number other than 0",
            lambda x: x is None or (is_whole(x) and x != 0),
            -1,
        ),
        "int, optional",
        """Number of threads of ``fit``; by default all cores that the process may use; a
        container's quota counts. The model does not depend on it.""",
    ),
    "time_limit": Parameter(
        Rule("None or a positive number of seconds", lambda x: x is None or is_positive(x), 60.0),
        "float, optional",
        """Seconds after which the fit ends with the best model so far; it covers search, training,
        purification and selection, and ``history_`` says what was cut short.""",
    ),
    "random_state": Parameter(
        Rule("None, a whole number from 0 to 2**32 - 1, or a NumPy generator", _is_random_state, 0),
        "int, RandomState, Generator or None, default=None",
        "Seed; the same seed gives the same model, bit for bit.",
    ),
    "verbose": Parameter(
        Rule(
            '"auto", 0, 1 or 2',
            lambda value: one_of("auto")(value) or (is_number(value) and value in (0, 1, 2)),
            1,
        ),
        '{"auto", 0, 1, 2}, default="auto"',
        """When to show a progress bar: on a terminal or in a notebook, never, or always. With 2 a
        table of the seconds of each stage follows at the end.""",
    ),
    "objective": Parameter(
        Rule(
            f"one of {', '.join(objectives_of())}; a dict such as "
            f"{' or '.join(map(str, examples_of_parameters()))}; or a torch function of y and raw "
            "score",
            is_objective,
            "squared_error",
        ),
        'str, dict or callable, default="squared_error"',
        f"""The loss: a name, a dict with a name and a parameter, or a torch function of y and raw
        score that returns each row's loss. {objective_entries()} Those of counts and amounts have
        a log link: name the column of exposures as ``exposure``.""",
    ),
    "exposure": Parameter(
        Rule(COLUMN_WORDS, _is_column, "exposure"),
        "str or int, optional",
        """Column of X, by name or position, whose logarithm is the offset: positive numbers such as
        the years that a policy was in force. It needs an objective with a log link, and predictions
        are then for the exposure of each row.""",
    ),
    "class_weight": Parameter(
        Rule(
            'None, "balanced" or a dict from class to a positive number',
            _is_class_weight,
            "balanced",
        ),
        '{"balanced"} or dict from class to weight, optional',
        """Factor by which the weights of a class's rows are multiplied; "balanced" gives all
        classes the same total weight.""",
    ),
}

RULES = {name: parameter.rule for name, parameter in PARAMETERS.items()}
OF_CLASSES = {  # parameters of a class that share a name with those of others
    "TPNNSurvival": {
        "objective": Parameter(
            Rule(
                f"one of {', '.join(objectives_of(OF_SURVIVAL))}; or a dict such as "
                f"{' or '.join(map(str, examples_of_parameters(OF_SURVIVAL)))}",
                lambda value: is_objective(value, OF_SURVIVAL),
                "cox",
            ),
            'str or dict, default="cox"',
            f"""The loss: a name, or a dict with a name and the kind of event that the model is
            about. {objective_entries(OF_SURVIVAL)}""",
        )
    }
}


def parameters_of(kind: type) -> dict[str, Parameter]:
    """Parameters that an estimator may have, by name."""
    own = [OF_CLASSES[base.__name__] for base in kind.__mro__ if base.__name__ in OF_CLASSES]
    return PARAMETERS | (own[0] if own else {})


def rules_of(kind: type) -> dict[str, Rule]:
    """Rules of these parameters."""
    return {name: parameter.rule for name, parameter in parameters_of(kind).items()}


ATTRIBUTES = """
model_ : AnovaModel
    The fitted model, which needs only NumPy to predict.
components_ : list of tuple of str
    Feature names of each component.
intercept_ : float
    Mean of the model under the product of the marginals.
history_ : list of dict
    History of the fit: what the search tried and decided, the losses of every bag or step, and
    last the seconds of each stage.
    All records have the same keys, so ``pandas.DataFrame(model.history_)`` shows them.
n_features_in_ : int
    Number of columns of X: the features and, where there is one, the column of the offset.
feature_names_in_ : array of shape (n_columns,)
    Names of these columns, if the table has them; ``model_.feature_names`` are the features.
"""


def with_short_forms(shapes: Any, periods: Any, groups: Any) -> dict[Any, Any]:
    """Shapes with ``periodic={"hour": 24}`` and ``random=["clinic"]``, which are short for them."""
    periods, groups = {} if periods is None else periods, [] if groups is None else groups
    for name, value in {"periodic": periods, "shapes": shapes or {}}.items():
        if not isinstance(value, Mapping):
            raise ValueError(
                f"{name}: must be None, or a dict by feature, found {value!r}. Pass for example "
                'periodic={"hour": 24}.'
            )
    if not isinstance(groups, list | tuple):
        raise ValueError(
            f"random: must be None, or a list of features, found {groups!r}. Pass for example "
            'random=["clinic"].'
        )
    given: dict[Any, Any] = dict(shapes or {})
    added = [("periodic", j, (WRAPPED, period)) for j, period in periods.items()]
    for name, feature, shape in [*added, *(("random", j, RANDOM) for j in groups)]:
        if feature in given:
            raise ValueError(
                f"{name}: a feature that is {name} has no other shape, found "
                f"{feature!r} in shapes too. Leave it out of one of them."
            )
        given[feature] = shape
    return given


Estimator = TypeVar("Estimator", bound=type)


@dataclass_transform()
def parametrised(estimator: Estimator) -> Estimator:
    """Give an estimator the constructor that scikit-learn asks for: its fields are parameters."""
    made: Any = dataclass(eq=False, repr=False, match_args=False)(estimator)
    constructor = made.__init__

    @wraps(constructor)
    def checked(self: Any, *values: Any, **named: Any) -> None:
        if "monotone" in named:
            raise TypeError(f"monotone: is called shapes. Pass shapes={named['monotone']!r}.")
        short = named.pop("periodic", None), named.pop("random", None)
        missing = named.pop("missing", None)
        constructor(self, *values, **named)
        if short != (None, None):
            self.shapes = with_short_forms(self.shapes, *short)
        if missing is not None:
            given = self.categorical
            rules = given if isinstance(given, Mapping) else {"features": given}
            self.categorical = {**rules, "missing": missing}

    made.__init__ = checked
    return estimator


def documented(estimator: Estimator) -> Estimator:
    """Add to a docstring all parameters, in the order of the constructor, and shared attributes.

    The docstring may have the sections Attributes, for those of the estimator alone, and Examples.
    """
    if estimator.__doc__ is None:  # python -OO leaves none
        return estimator
    text, heading = cleandoc(estimator.__doc__) + "\n\n", "Attributes\n----------\n"
    head, *sections = re.split(r"^(?=(?:Attributes|Examples)\n-)", text, flags=re.MULTILINE)
    alone = [section.removeprefix(heading) for section in sections if section.startswith(heading)]
    known = parameters_of(estimator)
    listed = "\n".join(known[name].entry(name) for name in signature(estimator).parameters)
    shared = heading + "\n".join([ATTRIBUTES.strip(), *alone])
    examples = [section for section in sections if section.startswith("Examples")]
    described = [head.strip(), f"Parameters\n----------\n{listed}", shared.strip(), *examples]
    estimator.__doc__ = "\n\n".join(described).strip()
    return estimator
