"""to_pmml: a model as PMML 4.4, a regression on derived fields that equals the model.

A main effect is one derived field: linear between nodes for numbers, a table of values for levels.
An interaction is a sum of products. Each of its axes but the last has a field for every node, which
is 1 there and falls linearly to 0 at the neighbours; it is multiplied by the line of the grid along
the last axis. That is multilinear interpolation, so nothing is lost.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, product
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.export.lowering import Grid, Input, Lowered, Place, checked_lowering
from tpnn.export.sheets.bins import Bands
from tpnn.export.sheets.tidy import refuse_remainder
from tpnn.loss.links import CLASS_LINKS
from tpnn.model.model import AnovaModel

if TYPE_CHECKING:
    from tpnn.export.sheets.scorecard import ScoreCard

NAMESPACE, VERSION = "http://www.dmg.org/PMML-4_4", "4.4"
LARGEST = repr(float(np.finfo(np.float64).max))
NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
MOST_REASONS = 4
NORMALIZATIONS = {"identity": "none", "log": "exp", "logit": "logit", "softmax": "softmax"}


def to_pmml(model: AnovaModel, contributions: bool) -> str:
    """Text of a RegressionModel with the predictions and, if asked for, all contributions."""
    refuse_remainder(model, "PMML")
    lowered = checked_lowering(model)
    n_outputs, is_class = lowered.n_outputs, lowered.link in CLASS_LINKS
    if n_outputs > 1 and not is_class:
        raise ValueError(
            f"model: a regression in PMML has one output, found {n_outputs}. Fit a model for each, "
            "or use to_code('c'), 'javascript' or 'python', or to_onnx."
        )
    page = Page(lowered)
    components, offset = page.components(), page.offset()
    root = page.model(
        "RegressionModel",
        functionName="classification" if is_class else "regression",
        normalizationMethod=NORMALIZATIONS[lowered.link],
    )
    output = SubElement(root, "Output")
    labels = [str(label) for label in model.classes or range(max(n_outputs, 2))]
    if is_class:
        field(output, page.free("label"), "categorical", "string", feature="predictedValue")
        for label in labels:
            name = page.free(f"probability({label})")
            field(output, name, feature="probability", value=legal(label))
    else:
        field(output, page.free("prediction"), feature="predictedValue")
    for name in chain(*components) if contributions else ():
        shown = field(output, page.free(f"contribution of {name}"), feature="transformedValue")
        SubElement(shown, "FieldRef", field=name)
    of_tables = labels[1:] if n_outputs < len(labels) else labels
    for intercept, label, names in zip(lowered.intercepts, of_tables, components, strict=False):
        about = {"targetCategory": label} if is_class else {}
        table = SubElement(root, "RegressionTable", about, intercept=repr(float(intercept)))
        for name in [*names, *offset]:
            SubElement(table, "NumericPredictor", name=name, coefficient="1")
    if is_class and n_outputs == 1:
        SubElement(root, "RegressionTable", intercept="0", targetCategory=labels[0])
    return page.text()


def card_to_pmml(card: ScoreCard, codes: Sequence[str]) -> str:
    """Text of a Scorecard; ``codes`` are the reasons of its components."""
    page = Page(checked_lowering(card.banded.model))
    root = page.model(
        "Scorecard",
        functionName="regression",
        initialScore=str(card.base_points),
        reasonCodeAlgorithm="pointsBelow",
        baselineMethod="max",
    )
    output = SubElement(root, "Output")
    field(output, page.free("score"), feature="predictedValue")
    for rank in range(1, 1 + min(MOST_REASONS, len(codes))):
        name = page.free(f"reason_{rank}")
        field(output, name, "categorical", "string", feature="reasonCode", rank=str(rank))
    characteristics = SubElement(root, "Characteristics")
    for (component, points), code in zip(card.points.items(), codes, strict=True):
        about = {"name": legal(card.names[component])}
        about["reasonCode"] = legal(code, "codes: codes", "Change it")
        one = SubElement(characteristics, "Characteristic", about, baselineScore=str(points.max()))
        for cell in product(*(page.band_tests(j, card.banded.bands[j]) for j in component)):
            partial = str(points[tuple(band for band, _ in cell)])
            attribute = SubElement(one, "Attribute", partialScore=partial)
            write_tests(attribute, [test for _, tests in cell for test in tests])
    return page.text()


class Page:
    """A document that is being written."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.root = Element("PMML", xmlns=NAMESPACE, version=VERSION)
        header = SubElement(self.root, "Header")
        SubElement(header, "Application", name="tpnn")
        self.dictionary = SubElement(self.root, "DataDictionary")
        self.derived = SubElement(self.root, "TransformationDictionary")
        self.taken: set[str] = set()
        self.columns = [self._column(x.name, x) for x in lowered.inputs]
        self.numbers = list(map(self._number, lowered.inputs, self.columns))
        self.hats: dict[tuple[int, int], str] = {}

    def model(self, tag: str, **attributes: str) -> Element:
        """Begin the model, which reads all columns."""
        model = SubElement(self.root, tag, attributes)
        schema = SubElement(model, "MiningSchema")
        for column in self.dictionary:
            SubElement(schema, "MiningField", name=column.attrib["name"])
        return model

    def text(self) -> str:
        """Whole document, in ASCII; readers take a plain carriage return for a line feed."""
        ElementTree.indent(self.root, "")
        text = ElementTree.tostring(self.root, xml_declaration=True).decode()
        return text.replace("\r", "&#13;")

    def free(self, name: str) -> str:
        """Name that no other field has."""
        name = legal(name)
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def offset(self) -> list[str]:
        """Fields that are added to the raw score."""
        known = self.lowered.offset
        if known is None:
            return [self._column("offset")] if self.lowered.needs_offset else []
        name = self._column(known.name, is_positive=known.is_exposure)
        if not known.is_exposure:
            return [name]
        logarithm = self._derived(f"ln({name})")
        apply(logarithm, "ln", name)
        return [self._keep(logarithm)]

    def components(self) -> list[list[str]]:
        """Write every component; its field, for each output."""
        called = [f" of {name}" for name in self.lowered.outputs] or [""]
        return [
            [self._component(grid, k, of_output) for grid in self.lowered.grids]
            for k, of_output in enumerate(called)
        ]

    def band_tests(self, feature: int, bands: Bands) -> list[tuple[int, list[Condition]]]:
        """Every band of a feature with its tests; the first band whose tests hold counts."""
        number = next(j for j, x in enumerate(self.lowered.inputs) if x.feature == feature)
        column, name = self.lowered.inputs[number], self.numbers[number]
        tests = [(bands.n_regular, [Condition(self.columns[number], "isMissing")])]
        if bands.has_levels:
            for band in range(bands.n_regular):
                places = np.flatnonzero(bands.of_point[: len(column.levels)] == band).tolist()
                words = [level_word(column, column.levels[place]) for place in places]
                tests.append((band, [Condition(name, "equal", tuple(words))]))
            return [*tests, (bands.n_regular + 1, [])]
        cuts = (bands.cuts / column.unit).tolist()
        for band in range(bands.n_regular):
            above = [Condition(name, "greaterOrEqual", (repr(x),)) for x in cuts[:band][-1:]]
            below = [Condition(name, "lessThan", (repr(x),)) for x in cuts[band : band + 1]]
            tests.append((band, above + below or [Condition(name, "isNotMissing")]))
        return tests

    def _column(self, name: str, about: Input | None = None, is_positive: bool = False) -> str:
        """Name of a column that is read: that of a feature or, without one, of an offset."""
        name = self.free(name)
        if about is not None and about.levels:
            kind = "string" if about.is_text or about.has_large_levels else "double"
            field(self.dictionary, name, "categorical", kind)
        else:
            ends = {"leftMargin": "0" if is_positive else "-" + LARGEST, "rightMargin": LARGEST}
            closure = "openClosed" if is_positive else "closedClosed"
            SubElement(field(self.dictionary, name), "Interval", ends, closure=closure)
        return name

    def _derived(self, name: str) -> Element:
        """Begin a derived field, which `_keep` puts behind those that it reads."""
        about = {"name": self.free(name), "optype": "continuous", "dataType": "double"}
        return Element("DerivedField", about)

    def _keep(self, derived: Element) -> str:
        self.derived.append(derived)
        return derived.attrib["name"]

    def _number(self, column: Input, name: str) -> str:
        """Field with the numbers of a column as its nodes have them."""
        if column.unit == 1 and not column.period:
            return name
        derived = self._derived(f"{name} in its unit")
        if column.period:
            known = apply(derived, "if")  # floor fails where its argument is missing
            apply(known, "isNotMissing", name)
            periods = apply(apply(known, "-", name), "*")
            apply(apply(periods, "floor"), "/", name, column.period)
            constant(periods, column.period)
        else:
            apply(derived, "/", name, column.unit)
        return self._keep(derived)

    def _component(self, grid: Grid, output: int, of_output: str) -> str:
        """Write a grid as the sum, over the nodes of all axes but the last, of their products."""
        derived = self._derived(f"f({', '.join(grid.names)}){of_output}")
        cells, places = grid.cells[:, output], self.lowered.places
        *others, last = grid.places
        if not others:
            self._profile(derived, last, cells)
            return self._keep(derived)
        total = apply(derived, "sum")
        for nodes in np.ndindex(*(places[place].size for place in others)):
            line = cells[np.dot(nodes, grid.strides[:-1]) :][: places[last].size]
            if line.any():
                factors = apply(total, "product", *map(self._hat, others, nodes))
                self._profile(factors, last, line)
        if not len(total):
            constant(total, 0.0)
        return self._keep(derived)

    def _hat(self, place: int, node: int) -> str:
        """Field that is 1 at a node, and falls linearly to 0 at its neighbours."""
        if (place, node) not in self.hats:
            name = self.columns[self.lowered.places[place].input]
            derived = self._derived(f"node {node} of {name}, grid {place}")
            values = np.zeros(self.lowered.places[place].size)
            values[node] = 1.0
            self._profile(derived, place, values)
            self.hats[place, node] = self._keep(derived)
        return self.hats[place, node]

    def _profile(self, parent: Element, number: int, values: FloatArray) -> None:
        """Write a function of one column by its values at the nodes of a place."""
        place = self.lowered.places[number]
        column, name = self.lowered.inputs[place.input], self.columns[place.input]
        if column.levels:
            _profile_of_levels(parent, name, column, _at_levels(place, values))
            return
        missing = float(values[place.lower[0]])
        regular = values[: len(place.nodes)] if len(place.nodes) else values[place.lower[1:2]]
        if (regular == regular[0]).all():
            write_constants(parent, name, missing, float(regular[0]))
            return
        line = SubElement(parent, "NormContinuous", field=self.numbers[place.input],
                          outliers="asExtremeValues", mapMissingTo=repr(missing))  # fmt: skip
        for node, value in zip(place.nodes.tolist(), regular.tolist(), strict=True):
            SubElement(line, "LinearNorm", orig=repr(node), norm=repr(value))


class Condition(NamedTuple):
    """A condition: the field has one of some values, or is missing."""

    name: str
    operator: str
    values: tuple[str, ...] = ()


def _at_levels(place: Place, values: FloatArray) -> FloatArray:
    """Values of missing ones, of unseen ones and of every level, from those at the nodes."""
    padded = np.append(values, 0.0)
    low, high = padded[place.lower], padded[np.minimum(place.lower + 1, len(values))]
    return np.asarray(low + place.fraction * (high - low))


def _profile_of_levels(parent: Element, name: str, column: Input, values: FloatArray) -> None:
    """Write a table of the levels that differ from unseen ones."""
    missing, unseen, *known = values.tolist()
    if (values[1:] == unseen).all():
        write_constants(parent, name, missing, unseen)
        return
    table = SubElement(parent, "MapValues", outputColumn="y", dataType="double",
                       defaultValue=repr(unseen), mapMissingTo=repr(missing))  # fmt: skip
    SubElement(table, "FieldColumnPair", field=name, column="x")
    rows = SubElement(table, "InlineTable")
    for level, value in zip(column.levels, known, strict=True):
        if value != unseen:
            row = SubElement(rows, "row")
            SubElement(row, "x").text = level_word(column, level)
            SubElement(row, "y").text = repr(value)


def level_word(column: Input, level: Any) -> str:
    """Level as it is written in a document."""
    is_text = column.is_text or column.has_large_levels
    return legal(str(level)) if is_text else repr(float(level))


def legal(
    text: str, what: str = "model: names and levels", advice: str = "Rename it before the fit"
) -> str:
    """Text, if XML can hold it."""
    if NO_XML.search(text):
        raise ValueError(
            f"{what} must have no control characters in PMML, found {text!r}. {advice}."
        )
    return text


def field(
    parent: Element, name: str, kind: str = "continuous", dtype: str = "double", **more: str
) -> Element:
    """Write a field, of the output if it has a feature."""
    tag = "OutputField" if "feature" in more else "DataField"
    return SubElement(parent, tag, {"name": name, "optype": kind, "dataType": dtype, **more})


def apply(parent: Element, function: str, *arguments: str | float) -> Element:
    """Write a function of fields and numbers, to which more arguments can be added."""
    one = SubElement(parent, "Apply", function=function)
    for argument in arguments:
        if isinstance(argument, str):
            SubElement(one, "FieldRef", field=argument)
        else:
            constant(one, argument)
    return one


def write_constants(parent: Element, name: str, missing: float, other: float) -> None:
    """Write a function that knows of a column only whether it is missing."""
    if missing != other:
        parent = apply(parent, "if")
        apply(parent, "isMissing", name)
        constant(parent, missing)
    constant(parent, other)


def constant(parent: Element, value: float) -> None:
    """Write a number."""
    SubElement(parent, "Constant", dataType="double").text = repr(float(value))


def write_tests(parent: Element, tests: Sequence[Condition]) -> None:
    """Write a predicate that holds if all tests do."""
    if len(tests) != 1:
        parent = SubElement(parent, "CompoundPredicate", booleanOperator="and") if tests else parent
    if not tests:
        SubElement(parent, "True")
    for name, operator, values in tests:
        either = parent
        if len(values) > 1:
            either = SubElement(parent, "CompoundPredicate", booleanOperator="or")
        for value in values or [""]:
            test = SubElement(either, "SimplePredicate", field=name, operator=operator)
            if values:
                test.set("value", value)
