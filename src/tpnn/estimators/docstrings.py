"""Docstrings: what the parameters and attributes of the estimators mean, written once for all."""

from __future__ import annotations

from inspect import cleandoc, signature
from typing import TypeVar

Estimator = TypeVar("Estimator", bound=type)

PARAMETERS = """
order : int or "auto", default="auto"
    Largest number of features in a component. "auto" includes triples if held-out rows confirm
    them, and is 2 otherwise; if ``interactions`` lists components, it is the order of the largest,
    and if it is "all" or a number, pairs are what is meant: the order is 2.
interactions : {"auto", "all"}, int, list of tuples or dict, default="auto"
    Components beyond the main effects. "auto" takes all pairs if there are few of them, else
    those that rise above the noise of the residual; then, up to ``order``, the triples that
    lower the held-out loss and larger components above the noise. A number takes that many of
    the best pairs. "all" takes every component up to ``order``, and a list of tuples of feature
    names or indices takes those interactions.
    A dict says more, with any of: "count" ("auto", "all" or a number); "method"
    ("histogram", or "nid" to rank pairs by the weights of a neural network); "required"
    (tuples that are always included); "forbidden" (features that no component may contain
    together); "groups" (groups of features within which features may interact).
components : list of tuples of feature names or indices, optional
    All components of the model, main effects included: ``[("age",), ("age", "bmi")]`` has no main
    effect of bmi. Growth fits the subsets of these components too and then leaves them out, so
    that no component takes over the effect of another; what is left is scaled to fit best.
max_components : int, optional
    Largest number of components of the model; by default only the interactions are limited, to
    500 of each order. The components that contribute most to the fit of held-out rows are kept
    and fitted again without the others.
selection : {"auto", "noise", "one_se", "none"}, default="auto"
    Which components to drop after fitting: "noise" drops those that held-out rows cannot tell
    from noise, "one_se" drops all that together cost less than a standard error, "none" drops
    nothing. "auto" is "noise" if components were screened, else "none". What is kept is fitted
    again without the others.
heredity : bool, default=False
    Whether a model that has a component must also have all subsets of it.
objective : str, dict or callable, default="squared_error"
    "squared_error", "absolute_error", "huber", "quantile" (the median),
    "poisson", "gamma" or "tweedie"; a dict with a parameter, ``{"name": "quantile", "levels":
    [0.1, 0.9]}``, ``{"name": "huber", "threshold": 1.0}`` (in standard deviations of y,
    estimated from its quartiles) or ``{"name": "tweedie", "power": 1.5}``; or a torch function
    of y and raw score that returns each row's loss. Poisson, gamma and Tweedie have a log link:
    name the column of exposures as ``exposure``.
monotone : dict from feature to shape, optional
    "increasing" or "decreasing" makes the whole model monotone in a feature, interactions
    included; "convex" and "concave" work likewise. ``model_.certificate(name)`` proves it.
categorical : "auto", list of names or indices, or dict, default="auto"
    Columns whose numbers are labels without order. Strings and categories always are. A dict has
    "features" (such a list, or "auto") and "min_rows": levels with fewer rows share one node,
    where a row with an integer weight counts that many times.
offset : str or int, optional
    Column of X, by name or position, that is a known part of the raw score of each row. It is
    not a feature. ``fit``, ``predict``, ``score`` and ``report`` read it from X, so
    cross-validation, searches and pipelines need no more than the table. The argument
    ``offset`` of these methods is the same as an array; only one of the two may be given.
exposure : str or int, optional
    Column of X, by name or position, whose logarithm is the offset: positive numbers such as
    the years that a policy was in force. It needs an objective with a log link, and predictions
    are then for the exposure of each row.
solver : {"auto", "grow", "gradient"}, Grow or Descent, default="auto"
    :class:`Grow` adds bases where the residual still has structure; it is more accurate and
    faster. :class:`Descent` learns bases by gradient descent, as in the paper; it needs torch.
    "grow" and "gradient" are the two with their default parameters; "auto" is "grow".
n_bags : int or "auto", default="auto"
    Number of models that are trained on different parts of the rows and averaged. "auto" is 32
    below 500 rows and 16 below 5,000, for several outputs fewer but at least 8, then 8 below
    4,000,000 rows, 4 below 20,000,000 and 2 beyond; gradient descent always trains 8.
max_nodes : int or dict from order to int, default=256
    Largest number of nodes per feature; interactions use fewer.
validation_fraction : float, default=0.15
    Share of the rows that each bag holds out for early stopping.
bands : bool, default=True
    Whether to compute what bands need, which takes about a tenth of the time of a fit. Without it
    the model is the same, bit for bit, but explanations of it have no bands.
device : {"auto", "cpu", "cuda"}, default="auto"
    Where to train. "cuda" is an NVIDIA card, which needs CuPy with :class:`Grow` and torch with
    :class:`Descent`. "auto" uses a card if there is one; :class:`Grow`, whose model is the same on
    every device, from 200,000 rows on.
n_jobs : int, optional
    Number of threads of ``fit``; by default all cores that the process may use; a container's
    quota counts. The model does not depend on it.
time_limit : float, optional
    Seconds after which the fit ends with the best model so far; it covers search, training,
    purification and selection, and ``history_`` says what was cut short.
random_state : int, RandomState, Generator or None, default=None
    Seed; the same seed gives the same model, bit for bit.
verbose : {"auto", 0, 1}, default="auto"
    When to show a progress bar: on a terminal or in a notebook, never, or always.
class_weight : {"balanced"} or dict from class to weight, optional
    Factor by which the weights of a class's rows are multiplied; "balanced" gives all classes
    the same total weight.
"""

ATTRIBUTES = """
model_ : AnovaModel
    The fitted model, which needs only NumPy to predict.
components_ : list of tuple of str
    Feature names of each component.
intercept_ : float
    Mean of the model under the product of the marginals.
history_ : list of dict
    History of the fit: what the search tried and decided, and the losses of every bag or step.
    All records have the same keys, so ``pandas.DataFrame(model.history_)`` shows them.
n_features_in_ : int
    Number of columns of X: the features and, where there is one, the column of the offset.
feature_names_in_ : array of shape (n_columns,)
    Names of these columns, if the table has them; ``model_.feature_names`` are the features.
"""


def entries(text: str) -> dict[str, str]:
    r"""Entries of a section of a docstring, by name: a line that begins with it, indented lines.

    >>> entries("a : int\n    One.\nb : int\n    Two.")
    {'a': 'a : int\n    One.', 'b': 'b : int\n    Two.'}
    """
    found: dict[str, str] = {}
    for line in text.strip("\n").splitlines():
        if not line.startswith(" "):
            name = line.split(" : ")[0]
            found[name] = line
        else:
            found[name] += f"\n{line}"
    return found


def documented(estimator: Estimator) -> Estimator:
    """Fill in the docstring of an estimator: all its parameters, in the order of its constructor.

    The docstring marks the places by ``<parameters>`` and ``<attributes>``.
    """
    if estimator.__doc__ is not None:  # python -OO leaves none
        known = entries(PARAMETERS)
        listed = "\n".join(known[name] for name in signature(estimator).parameters)
        text = cleandoc(estimator.__doc__)
        text = text.replace("<parameters>", f"Parameters\n----------\n{listed}")
        shared = ATTRIBUTES.strip("\n")
        estimator.__doc__ = text.replace("<attributes>", f"Attributes\n----------\n{shared}")
    return estimator
