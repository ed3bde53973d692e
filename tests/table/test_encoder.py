"""TableEncoder: nodes learned from training rows, and new rows read against them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tpnn.table.axis import OTHERS
from tpnn.table.codes import code_rows
from tpnn.table.encoder import LevelRules, TableEncoder
from tpnn.table.table import Table

numbers = st.floats(-1e6, 1e6).map(lambda x: x if abs(x) >= 2.0**-1020 else 0.0)
columns = arrays(float, st.integers(2, 60), elements=numbers)


def test_weights_count_like_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=200), rng.integers(0, 4, 200).astype(float)
    repeated = pd.DataFrame({"x": np.repeat(x, weights.astype(int))})
    one = TableEncoder.fit(Table(pd.DataFrame({"x": x})), {1: 16}, weights).axes[1][0]
    other = TableEncoder.fit(Table(repeated), {1: 16}).axes[1][0]
    assert np.array_equal(one.values, other.values)
    assert np.array_equal(one.weights, other.weights)


def in_order(encoder: TableEncoder) -> list[int]:
    return sorted(range(encoder.n_features), key=encoder.canonical_key)


def test_the_order_of_training_follows_names_or_contents() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 3))
    named = TableEncoder.fit(Table(pd.DataFrame(X, columns=["c", "a", "b"])), {1: 8})
    assert in_order(named) == [1, 2, 0]
    plain = in_order(TableEncoder.fit(Table(X), {1: 8}))
    flipped = in_order(TableEncoder.fit(Table(X[:, ::-1]), {1: 8}))
    assert [2 - feature for feature in flipped] == plain


def test_more_than_256_nodes_use_two_bytes() -> None:
    X = np.arange(600.0)[:, None]
    for most, dtype in ((256, np.uint8), (300, np.uint16)):
        encoder = TableEncoder.fit(Table(X), {1: most})
        assert code_rows(Table(X), encoder, np.arange(600))[1].dtype == dtype


@given(columns)
def test_coarse_nodes_are_fine_nodes(x: np.ndarray) -> None:
    encoder = TableEncoder.fit(Table(x[:, None]), {1: 12, 2: 6, 3: 3})
    fine, coarse, coarsest = (encoder.axes[order][0].values for order in (1, 2, 3))
    assert np.isin(coarse, fine).all()
    assert np.isin(coarsest, coarse).all()


MESSY = {
    "number": [1.5, None, 3.0, 1.5],
    "string": ["b", "a", None, "b"],
    "nullable": pd.array([1, None, 3, 1], dtype="Int64"),
    "flag": pd.array([True, None, False, True], dtype="boolean"),
    "text": pd.array(["b", "a", None, "b"], dtype="string"),
    "colour": pd.Categorical(["b", "a", None, "b"], categories=["c", "b", "a"]),
    "size": pd.Categorical(["S", "L", None, "S"], categories=["S", "M", "L"], ordered=True),
    "when": pd.to_datetime(["2020-01-02", None, "2020-01-01", "2020-01-02"]),
    "zoned": pd.to_datetime(["2020-01-02", None, "2020-01-01", "2020-01-02"]).tz_localize("CET"),
    "wait": pd.to_timedelta(["2s", None, "1s", "2s"]),
}


def test_columns_of_every_kind() -> None:
    table = Table(pd.DataFrame(MESSY))
    encoder = TableEncoder.fit(table, {1: 16, 2: 8})
    by_name = dict(zip(encoder.feature_names, encoder.axes[2], strict=True))
    assert all(axis.weights[axis.missing] == [0.25] for axis in by_name.values())
    assert by_name["string"].levels == by_name["text"].levels == ("b", "a")
    assert by_name["colour"].levels == ("b", "a")
    assert by_name["colour"].is_nominal
    assert by_name["size"].levels == ("S", "L")
    assert by_name["size"].kind == "ordered"
    day, hour = 86_400.0, 3_600.0
    assert np.diff(by_name["when"].values[:2]).tolist() == [day]
    assert by_name["when"].values[0] - by_name["zoned"].values[0] == hour
    assert by_name["wait"].values[:2].tolist() == [1.0, 2.0]
    codes = code_rows(table, encoder, np.arange(4))[1]
    assert (codes[:, 0] == codes[:, 3]).all()
    assert all(len(set(row[:3])) == 3 for row in codes.tolist())


def converted(frame: pd.DataFrame, library: str) -> Any:
    """The same table in polars or Arrow."""
    module = pytest.importorskip(library)
    return module.from_pandas(frame) if library == "polars" else module.Table.from_pandas(frame)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_tables_of_other_libraries(library: str) -> None:
    names = ["number", "string", "colour", "when", "wait"]
    names += ["size"] if library == "pyarrow" else []  # polars' categories have no order
    frame = pd.DataFrame({name: MESSY[name] for name in names}).assign(
        amount=[Decimal("1.5"), None, Decimal("NaN"), Decimal("3")]
    )
    expected = TableEncoder.fit(Table(frame), {1: 16})
    assert expected.features[-1].kind == "number"
    other = converted(frame, library)
    found = TableEncoder.fit(Table(other), {1: 16})
    assert found.names == expected.names
    assert found.features == expected.features
    for ours, theirs in zip(expected.axes[1], found.axes[1], strict=True):
        assert np.array_equal(ours.values, theirs.values, equal_nan=True)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_categories_fitted_in_pandas_are_read_from_other_libraries(library: str) -> None:
    """Codes differ between the libraries, and between the chunks of Arrow; labels do not."""
    frame = pd.DataFrame({name: MESSY[name] for name in ("colour", "size")})
    encoder = TableEncoder.fit(Table(frame), {1: 16})
    rows = frame[::-1].reset_index(drop=True)
    other = converted(rows, library)
    if library == "pyarrow":
        other = pytest.importorskip("pyarrow").concat_tables([other, other])
        rows = pd.concat([rows, rows])
    for ours, theirs in zip(
        encoder.columns(Table(rows)), encoder.columns(Table(other)), strict=True
    ):
        assert np.array_equal(ours, theirs, equal_nan=True)


@pytest.mark.parametrize("empty", [[None, None], [np.nan, np.nan]])
@pytest.mark.parametrize("read", [["x", None], [3.0, np.nan], [timedelta(1), None]])
def test_a_column_without_a_value_in_fit_has_no_kind(empty: list, read: list) -> None:
    encoder = TableEncoder.fit(Table(pd.DataFrame({"a": empty, "b": [1.0, 2.0]})), {1: 8})
    new = Table(pd.DataFrame({"a": read, "b": [1.0, 2.0]}))
    with pytest.warns(UserWarning, match=r"^X: levels .* contribute 0 .* in 'a' \(1 of 2 rows\)\."):
        a, _ = encoder.columns(new)
    axis = encoder.axes[1][0]
    assert axis.locate(a)[0].tolist() == [axis.n_nodes, axis.missing_node]


def test_new_values_in_an_array_of_finite_numbers_are_warned_about() -> None:
    train = np.array([[1.0, np.nan], [2.0, np.nan]])
    encoder = TableEncoder.fit(Table(train), {1: 8}, rules=LevelRules(nominal=[0]))
    with pytest.warns(UserWarning, match=r"found in 'x0' \(1 of 2 rows\), 'x1' \(2 of 2 rows\)"):
        encoder.columns(Table(np.array([[1.0, 5.0], [7.0, 6.0]])))


def test_levels_that_fit_has_not_seen_fall_on_the_null_node() -> None:
    encoder = TableEncoder.fit(
        Table(pd.DataFrame({"a": ["x", "y", "x"], "b": [1.0, 2.0, 3.0]})), {1: 8}
    )
    new = encoder.read(pd.DataFrame({"a": ["y", "z", None], "b": [np.nan, 2.0, 9.0]}))
    with pytest.warns(UserWarning, match=r"^X: levels .* contribute 0 .* 'a' \(2 of 3 .* 'b' \(1"):
        a, b = encoder.columns(new)
    assert encoder.axes[1][0].locate(a)[0].tolist() == [1, 2, 2]
    assert encoder.axes[1][1].locate(b)[0].tolist() == [3, 1, 2]


def test_numbers_are_levels_where_asked() -> None:
    table = Table(pd.DataFrame({"zip": [30, 10, 10, 20]}))
    encoder = TableEncoder.fit(table, {1: 8}, rules=LevelRules(nominal=[0]))
    (axis,) = encoder.axes[1]
    assert axis.is_nominal
    assert axis.levels == (10, 20, 30)
    assert encoder.numbers(Table(pd.DataFrame({"zip": [30.0, 10.0]})), 0).tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    ("fitted", "read", "words"),
    [
        (["1", "2"], [1, 2], "must hold levels like those of fit, \\['1', '2'\\], found numbers"),
        ([1, 2], ["1", "2"], "must hold what it held in fit, numbers, found levels such as \\['1'"),
        (
            [1, 2],
            pd.to_datetime(["2020", "2021"]),
            "must hold what it held in fit, numbers, found dates",
        ),
        (
            pd.Categorical(pd.to_datetime(["2020", "2021"])),
            pd.to_datetime(["2020", "2021"]),
            "must hold levels like those of fit, \\['2020-.*, found dates. Convert it to such",
        ),
    ],
)
def test_no_silent_conversion(fitted: list, read: list, words: str) -> None:
    encoder = TableEncoder.fit(Table(pd.DataFrame({"a": fitted})), {1: 8})
    with pytest.raises(TypeError, match=f"^X: column 'a' {words}"):
        encoder.columns(Table(pd.DataFrame({"a": read})))


def test_rare_levels_share_a_node_on_request_and_in_small_tables() -> None:
    labels = ["a"] * 5 + ["b"] * 3 + ["c", "d"]
    table = Table(pd.DataFrame({"x": labels}))
    apart = TableEncoder.fit(table, {1: 8, 2: 2})
    assert apart.axes[1][0].levels == ("a", "b", "c", "d")
    assert apart.axes[2][0].levels == ("a", OTHERS)
    shared = TableEncoder.fit(table, {1: 8}, rules=LevelRules(least_rows=2)).axes[1][0]
    assert shared.levels == ("a", "b", OTHERS)
    assert shared.weights.tolist() == [0.5, 0.3, 0.2]


@pytest.mark.parametrize("unit", [1.0, 7.0, 0.1, 1 / 300])
def test_small_weights_do_not_make_levels_rare(unit: float) -> None:
    table = Table(pd.DataFrame({"x": ["a", "b", "b", "c", "c", "d"]}))
    weights = np.array([9.0, 1.0, 1.0, 2.0, 2.0, 1.0]) * unit
    axis = TableEncoder.fit(table, {1: 8}, weights).axes[1][0]
    assert axis.levels == ("a", "c", "b", "d")


@pytest.mark.parametrize(
    ("weights", "levels"),
    [([9.0, 1, 1, 2, 2, 1], ("a", "c", OTHERS)), ([9.5, 1, 1, 2, 2, 1], ("c", OTHERS))],
)
def test_integer_weights_count_rows(weights: list[float], levels: tuple[str, ...]) -> None:
    table = Table(pd.DataFrame({"x": ["a", "b", "e", "c", "c", "d"]}))
    rules = LevelRules(least_rows=2)
    assert TableEncoder.fit(table, {1: 8}, np.array(weights), rules).axes[1][0].levels == levels


def test_tables_are_read_by_name_or_by_position() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    encoder = TableEncoder.fit(Table(frame), {1: 8})
    by_name = encoder.columns(encoder.read(frame[["b", "a"]].assign(more=0)))
    by_position = encoder.columns(encoder.read(frame.to_numpy()))
    for one, other in zip(by_name, by_position, strict=True):
        assert np.array_equal(one, other)


def test_the_number_of_columns_must_be_that_of_fit() -> None:
    encoder = TableEncoder.fit(Table(np.eye(3)), {1: 8})
    with pytest.raises(ValueError, match=r"X has 2 features, but Reader is expecting 3 features"):
        encoder.read(np.eye(2), reader="Reader")
    assert encoder.feature_names == ("x0", "x1", "x2")


def test_an_array_needs_all_columns_and_a_table_with_names_those_in_use() -> None:
    frame = pd.DataFrame(np.eye(3), columns=["a", "b", "c"])
    words = r"expecting 3 features as input\. Pass all 3 columns of fit in their order, "
    named = TableEncoder.fit(Table(frame), {1: 8}).pick([0, 2])
    assert named.read(frame[["c", "a"]]).names == ("a", "c")
    assert named.read(np.eye(3)).n_features == 2
    with pytest.raises(ValueError, match=words + r"or a table with .* needs only \['a', 'c'\]\."):
        named.read(np.eye(3)[:, [0, 2]])
    counted = TableEncoder.fit(Table(np.eye(3)), {1: 8}).pick([0, 2])
    with pytest.raises(ValueError, match=words + r"also those .*; it uses \['x0', 'x2'\]\."):
        counted.read(np.eye(3)[:, [0, 2]])


@given(columns, st.data())
def test_rows_without_weight_leave_no_trace(x: np.ndarray, data: Any) -> None:
    n_ghosts = data.draw(st.integers(1, 5))
    ghosts = data.draw(arrays(float, n_ghosts, elements=st.floats(-1e9, 1e9)))
    labels = ["u", "v"] * len(x)
    frame = pd.DataFrame({"x": x, "k": labels[: len(x)]})
    haunted = pd.concat([frame, pd.DataFrame({"x": ghosts, "k": "ghost"})])
    weights = np.r_[np.ones(len(x)), np.zeros(n_ghosts)]
    plain = TableEncoder.fit(Table(frame), {1: 8, 2: 4})
    found = TableEncoder.fit(Table(haunted), {1: 8, 2: 4}, weights)
    assert found.features == plain.features
    for order in (1, 2):
        for one, other in zip(found.axes[order], plain.axes[order], strict=True):
            assert np.array_equal(one.values, other.values)
            assert np.allclose(one.weights, other.weights)


def test_a_column_without_values_can_be_predicted_on() -> None:
    """Nothing says what kind it has."""
    encoder = TableEncoder.fit(Table(pd.DataFrame({"a": [1.0, None], "b": ["x", None]})), {1: 8})
    empty = pd.DataFrame({"a": pd.Categorical([None, None], ["q"]), "b": [np.nan, np.nan]})
    a, b = encoder.columns(Table(empty))
    assert np.isnan(a).all()
    assert np.isnan(b).all()


def test_ordered_levels_are_found_by_label() -> None:
    sizes = pd.CategoricalDtype(["S", "M", "L"], ordered=True)
    train = pd.DataFrame({"size": pd.Series(["L", "S", "L"], dtype=sizes)})
    encoder = TableEncoder.fit(Table(train), {1: 8})
    assert encoder.features[0][:2] == ("ordered", ("S", "L"))  # M has no row
    with pytest.warns(UserWarning, match=r"'size' \(1 of 3 rows\)"):
        (found,) = encoder.columns(Table(pd.DataFrame({"size": ["L", "M", "S"]})))
    assert found.tolist() == [1.0, np.inf, 0.0]


def test_labels_of_several_types_have_an_order() -> None:
    table = Table(pd.DataFrame({"a": pd.Categorical(["x", 2, 1.5, True])}))
    encoder = TableEncoder.fit(table, {1: 8})
    assert encoder.features[0].levels == (True, 1.5, 2, "x")


@given(columns)
def test_codes_are_the_nearest_nodes_of_the_chosen_rows(x: np.ndarray) -> None:
    table = Table(np.column_stack([x, -x]))
    encoder = TableEncoder.fit(table, {1: 8, 2: 4})
    rows = np.arange(len(x))[::2]
    for order in (1, 2):
        codes = code_rows(table, encoder, rows)[order]
        assert codes.shape == (2, len(rows))
        for feature, axis in enumerate(encoder.axes[order]):
            assert np.array_equal(codes[feature], axis.codes(table.column(feature).values[rows]))


def test_many_unseen_columns_are_named_in_one_warning() -> None:
    encoder = TableEncoder.fit(Table(np.ones((3, 7))), {1: 8})
    with pytest.warns(UserWarning, match=r"'x0' .*'x4' \(2 of 2 rows\), \.\.\.\.$") as caught:
        encoder.columns(Table(np.full((2, 7), np.nan)))
    assert len(caught) == 1
