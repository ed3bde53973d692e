"""to_code: a model as one source file without dependencies, or as PMML.

The code that scores a row stands in ``templates``, in files that run: between two marks they hold
an example model. A model is written by putting its nodes, cells and names there instead. All of it
is ASCII, so that no compiler, browser or editor can read it in a wrong encoding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tpnn._utils.arrays import BoolArray
from tpnn._utils.rules import check_parameters, choice_of
from tpnn.export.lowering import Forest, Grid, Input, Lowered, Place, checked_lowering
from tpnn.export.pmml import to_pmml
from tpnn.model.model import AnovaModel
from tpnn.table.columns import LARGEST_EXACT_INTEGER
from tpnn.table.encoder import level_text
from tpnn.table.table import DATE, DURATION, NUMBER, PERIODIC

TEMPLATES = Path(__file__).parent / "templates"
BEGIN, END = "BEGIN MODEL", "END MODEL"
ITEMS_PER_LINE = 6
WORD = 32  # bits
# how levels are read: as text, as numbers, as numbers of which some are no doubles, as both
TEXT, NUMBERS, WHOLE, EITHER = "text", "numbers", "whole numbers", "text or numbers"
PREDICTIONS = {
    "numbers": "the raw score",
    "rates": "exp(raw score)",
    "survival": "the relative risk, exp(raw score)",
    "quantiles": "the quantiles: the raw scores, sorted",
}
MAX_NAME_LENGTH = 40  # of a member in C
# keywords of C and C++, and words in small letters that headers define as macros
RESERVED_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class co_await co_return co_yield compl complex concept const const_cast consteval
    constexpr constinit continue decltype default delete do double dynamic_cast else enum errno
    explicit export extern false far float for friend goto i386 if imaginary inline int interface
    linux long mutable namespace near new noexcept noreturn not not_eq nullptr operator or or_eq
    private protected public register reinterpret_cast requires restrict return short signed sizeof
    small static static_assert static_cast stderr stdin stdout struct switch template this
    thread_local throw true try typedef typeid typename typeof union unix unsigned using virtual
    void volatile wchar_t while xor xor_eq
"""
RESERVED = frozenset(RESERVED_WORDS.split())


def to_code(model: AnovaModel, language: str, contributions: bool) -> str:
    """Text of a file that computes raw score, prediction and, if asked for, contributions."""
    check_parameters({"language": language}, {"language": choice_of(*LANGUAGES, "pmml")})
    if language == "pmml":
        return to_pmml(model, contributions)
    file, write = LANGUAGES[language]
    lowered = checked_lowering(model)
    if not contributions:
        lowered = lowered.in_one()
    lines = write(lowered, model.classes, f"The prediction is {_words(model)}.")
    template = (TEMPLATES / file).read_text("ascii")
    before = template[: template.index("\n", template.index(BEGIN)) + 1]
    after = template[template.rindex("\n", 0, template.index(END)) + 1 :]
    asked = {"contributions": contributions, "remainder": lowered.forest is not None}
    for word in (word for word, is_wanted in asked.items() if not is_wanted):
        before, after = (  # without the paragraphs that have the word
            "\n\n".join(text for text in code.split("\n\n") if word not in text)
            for code in (before, after)
        )
    return before + "".join(f"{line}\n" for line in lines) + after


def _words(model: AnovaModel) -> str:
    """Say what the prediction is."""
    if model.task.kind != "classes":
        return PREDICTIONS[model.task.kind]
    if len(model.intercepts) > 1:
        return "the probability of every class"
    if model.classes:
        return f"the probability of the class {quoted(str(model.classes[-1]))}"
    return "a probability, 1 / (1 + exp(-raw score))"


def _columns(lowered: Lowered) -> list[str]:
    """Say what each column of a row holds: the inputs, then an offset."""
    columns = [
        f"{quoted(column.name)}: {reading(column)}"
        + (f", {len(column.levels)} levels" if column.levels else "")
        for column in lowered.inputs
    ]
    kind, name = _offset(lowered)
    rule = "positive, its logarithm" if kind == "exposure" else "finite,"
    words = f"{quoted(name)}: number, {rule} is added to the raw score; never missing"
    return columns if kind == "none" else [*columns, words]


def _offset(lowered: Lowered) -> tuple[str, str]:
    """Kind of the offset, and the name of what holds it."""
    if lowered.offset is not None:
        return "exposure" if lowered.offset.is_exposure else "column", lowered.offset.name
    return ("argument", "offset") if lowered.needs_offset else ("none", "")


def reading(column: Input) -> str:
    """How the values of a column are read."""
    if not column.levels:
        return column.kind if column.kind in (DATE, DURATION, PERIODIC) else NUMBER
    if column.is_text:
        return EITHER if column.are_text else TEXT
    return WHOLE if column.has_large_levels else NUMBERS


def level_codes(column: Input) -> dict[Any, int]:
    """Code of every level; where text and numbers are compared as text, of such numbers, too.

    >>> column = Input(name="x", feature=0, kind="nominal", levels=("a", "1", "1.0"), are_text=True,
    ...                unit=1.0, may_be_boolean=False)
    >>> level_codes(column)
    {'a': 0, '1': 1, '1.0': 2, 1: 1}
    """
    levels = [int(level) if isinstance(level, bool) else level for level in column.levels]
    codes: dict[Any, int] = {level: code for code, level in enumerate(levels)}
    if reading(column) == EITHER:
        numbers = [(_number_written_as(level), code) for level, code in codes.items()]
        codes.update((number, code) for number, code in numbers if number is not None)
    return codes


def _number_written_as(text: str) -> int | float | None:
    """Return the number whose text is this level, None if there is none."""
    try:
        number: int | float = float(text)
    except ValueError:
        return None
    if not abs(number) < LARGEST_EXACT_INTEGER:
        return None
    number = int(number) if number == int(number) else number
    return number if level_text(number) == text else None


def quoted(text: str) -> str:
    r"""Text for a comment: on one line, in ASCII, and without what could end a comment.

    >>> print(quoted("*/ x </script> ä ??/"))
    "*\/ x \u003c/script\u003e \u00e4 ?\?/"
    """
    written = json.dumps(text)
    escapes = {"*/": "*\\/", "/*": "/\\*", "??": "?\\?", "<": "\\u003c", ">": "\\u003e"}
    for mark, escaped in escapes.items():
        written = written.replace(mark, escaped)
    return written


def lines_of(items: Iterable[str], indent: str = "") -> str:
    """Items with commas, on lines of their own if they are many.

    >>> lines_of(["1.0", "2.0"])
    '1.0, 2.0'
    """
    items = list(items)
    starts = range(0, len(items), ITEMS_PER_LINE)
    lines = [", ".join(items[start : start + ITEMS_PER_LINE]) for start in starts]
    if len(lines) < 2:
        return "".join(lines)
    return f"\n{indent}  " + f",\n{indent}  ".join(lines) + f"\n{indent}"


def _script_data(
    lowered: Lowered,
    classes: Sequence[Any],
    about: str,
    *,
    comment: str,
    declaration: str,
    literal: Callable[[Any], str],
) -> list[str]:
    """Lines that declare a model in a language with lists."""
    codes = [level_codes(column) if column.levels else {} for column in lowered.inputs]
    inputs = [
        (
            column.name,
            reading(column),
            column.period or column.unit,
            tuple(each),
            tuple(each.values()),
        )
        for column, each in zip(lowered.inputs, codes, strict=True)
    ]
    data = {
        "INPUTS": inputs,
        "PLACES": [(place.input, *_arrays(place)) for place in lowered.places],
        "GRIDS": list(map(_grid, lowered.grids)),
        "INTERCEPTS": lowered.intercepts.tolist(),
        "LINK": lowered.link,
        "OFFSET": _offset(lowered),
        "OUTPUTS": lowered.outputs,
        "CLASSES": classes,
        "COMPONENTS": [grid.names for grid in lowered.grids],
    }
    if lowered.forest is not None:
        data |= {"HELD": list(map(_grid, lowered.held)), **_forest(lowered.forest)}
    comments = [about, "Columns of a row:", *(f"  {words}" for words in _columns(lowered))]
    return [comment + words for words in comments] + [
        declaration.format(name, _nested(value, literal)) for name, value in data.items()
    ]


def _grid(grid: Grid) -> tuple[Any, ...]:
    return grid.places, grid.strides, grid.cells.ravel().tolist()


def _forest(forest: Forest) -> dict[str, list[Any]]:
    """Questions and trees: each node has its question and the places to the left and right."""
    trees, place_of = forest
    nodes = np.column_stack([trees.questions, trees.children])
    return {
        "QUESTIONS": [(place_of[j], _words_of(right)) for j, right in trees.each_question()],
        "TREES": trees.roots.tolist(),
        "NODES": nodes.ravel().tolist(),
        "LEAVES": trees.values.ravel().tolist(),
    }


def _words_of(bits: BoolArray) -> list[int]:
    """Words of 32 bits, the lowest bits of the first one first.

    >>> _words_of(np.arange(33) % 32 == 0)
    [1, 1]
    """
    padded = np.zeros(-(-len(bits) // WORD) * WORD, np.uint8)
    padded[: len(bits)] = bits
    return np.packbits(padded, bitorder="little").view("<u4").tolist()


def _arrays(place: Place) -> list[list[Any]]:
    return [array.tolist() for array in (place.nodes, place.lower, place.fraction)]


def _nested(value: Any, literal: Callable[[Any], str], indent: str = "") -> str:
    """Write lists within lists, those of the first level on lines of their own.

    >>> print(_nested([1, "a"], ascii), _nested([[1], []], ascii))
    [1, 'a'] [
      [1],
      [],
    ]
    """
    if not isinstance(value, list | tuple):
        return literal(value)
    if not any(isinstance(item, list | tuple) for item in value):
        return f"[{lines_of(map(literal, value), indent)}]"
    if not indent:
        items = (f"  {_nested(item, literal, '  ')},\n" for item in value)
        return f"[\n{''.join(items)}]"
    return f"[{', '.join(_nested(item, literal, indent) for item in value)}]"


def _javascript(value: Any) -> str:
    r"""Write a string, a truth value or a number; whole numbers that are no doubles are BigInts.

    >>> print(_javascript("</b>"), _javascript(True), _javascript(0.5), _javascript(2**53 + 1))
    "\u003c/b\u003e" true 0.5 9007199254740993n
    """
    if isinstance(value, str | bool):
        return json.dumps(value).replace("<", "\\u003c").replace(">", "\\u003e")
    return repr(value) if isinstance(value, float) or _is_double(value) else f"{value}n"


def _is_double(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _c_data(lowered: Lowered, classes: Sequence[Any], about: str) -> list[str]:
    """Lines that declare a model in C."""
    kind, offset = _offset(lowered)
    columns = [column.name for column in lowered.inputs]
    names = identifiers(columns if kind == "none" else [*columns, offset])
    types = ["const char *" if _is_text(column) else "double " for column in lowered.inputs]
    members = [
        f"    {type_}{name}; /* {words} */"
        for type_, name, words in zip([*types, "double "], names, _columns(lowered), strict=False)
    ]
    sizes = {"OUTPUTS": lowered.n_outputs, "COMPONENTS": len(lowered.grids),
             "INPUTS": len(lowered.inputs), "PLACES": len(lowered.places)}  # fmt: skip
    labels = {"classes": list(map(str, classes)), "outputs": lowered.outputs,
              "components": [" x ".join(grid.names) for grid in lowered.grids]}  # fmt: skip
    records = {
        "input tpnn_inputs": [_c_input(*pair) for pair in zip(lowered.inputs, names, strict=False)],
        "place tpnn_places": [_c_place(place) for place in lowered.places],
        "grid tpnn_grids": [_c_grid(grid) for grid in lowered.grids],
    }
    arrays: dict[str, list[Any]] = {"double tpnn_intercepts": lowered.intercepts.tolist()}
    if lowered.forest is not None:
        more_sizes, more_records, more_arrays = _c_forest(lowered.forest, lowered.held)
        sizes, records, arrays = sizes | more_sizes, records | more_records, arrays | more_arrays
    return [
        f"/* {about} */",
        f"enum {{ {', '.join(f'TPNN_{name} = {size}' for name, size in sizes.items())} }};",
        "struct tpnn_row {",
        *(members or ["    char unused;"]),
        "};",
        *(
            f"const char *const tpnn_{name}[] = {{{lines_of(map(c_text, texts)) or '0'}}};"
            for name, texts in labels.items()
        ),
        f"static const enum tpnn_link tpnn_link = TPNN_{lowered.link.upper()};",
        f"static const enum tpnn_offset tpnn_offset = TPNN_{kind.upper()};",
        "static const size_t tpnn_offset_at = "
        + (f"offsetof(struct tpnn_row, {names[-1]});" if kind != "none" else "0;"),
        *(
            f"static const {name}[] = {{{lines_of(map(repr, each)) or '0'}}};"
            for name, each in arrays.items()
        ),
        *(
            f"static const struct tpnn_{name}[] = {{"
            + (",".join(f"\n  {record}" for record in each) or "{0}")
            + "\n};"
            for name, each in records.items()
        ),
    ]


def identifiers(names: Iterable[str]) -> list[str]:
    """Distinct identifiers of C that look like the names.

    >>> identifiers(["Age", "age", "int", "3 'x'; ", "ä"])
    ['age', 'age_2', 'int_2', 'x_3_x', 'x']
    """
    used = set(RESERVED)
    answer = []
    for name in names:
        word = re.sub(r"[^a-z0-9]+", "_", name.lower()[:MAX_NAME_LENGTH]).strip("_")
        word = word if word[:1].isalpha() else f"x_{word}".strip("_")
        free, number = word, 2
        while free in used:
            free, number = f"{word}_{number}", number + 1
        used.add(free)
        answer.append(free)
    return answer


def c_text(text: str) -> str:
    r"""Text between quotes, its UTF-8 in octal where it is no plain letter, digit or space.

    >>> print(c_text('a "b"??/'))
    "a \042b\042\077\077/"
    """
    plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-+.,:;()/=!#"
    encoded = text.encode(errors="replace")
    return '"' + "".join(chr(x) if x in plain else f"\\{x:03o}" for x in encoded) + '"'


def _is_text(column: Input) -> bool:
    """Whether the values of a column are text in C."""
    return reading(column) in (TEXT, WHOLE, EITHER)


def _c_input(column: Input, name: str) -> str:
    """Write where a column is in the row, and its levels in increasing order."""
    pairs: list[tuple[Any, int]] = []
    if _is_text(column):
        pairs = sorted((_utf8(level_text(x), column), code) for code, x in enumerate(column.levels))
    elif column.levels:
        pairs = sorted((float(level), code) for level, code in level_codes(column).items())
    numbers = [level for level, _ in pairs if isinstance(level, float)]
    texts = [c_text(level.decode()) for level, _ in pairs if isinstance(level, bytes)]
    return _c_record(
        f"offsetof(struct tpnn_row, {name})",
        column.unit,
        column.period,
        len(pairs),
        _c_array("double", numbers),
        _c_array("char *const", texts),
        _c_array("int", [code for _, code in pairs]),
    )


def _c_place(place: Place) -> str:
    nodes, lower, fraction = _arrays(place)
    arrays = _c_array("double", nodes), _c_array("int", lower), _c_array("double", fraction)
    return _c_record(place.input, len(nodes), *arrays)


def _c_grid(grid: Grid) -> str:
    cells = _c_array("double", grid.cells.ravel().tolist())
    return _c_record(
        len(grid.places), _c_array("int", grid.places), _c_array("int", grid.strides), cells
    )


def _c_forest(
    forest: Forest, held: Sequence[Grid]
) -> tuple[dict[str, int], dict[str, list[str]], dict[str, list[Any]]]:
    """Sizes, records and arrays of a remainder."""
    data = _forest(forest)
    questions = [
        _c_record(place, _c_array("unsigned long", words)) for place, words in data["QUESTIONS"]
    ]
    kinds = {"TREES": "int", "NODES": "int", "LEAVES": "double"}
    return (
        {"HELD": len(held), "TREES": len(data["TREES"])},
        {"grid tpnn_held": list(map(_c_grid, held)), "question tpnn_questions": questions},
        {f"{kind} tpnn_{name.lower()}": data[name] for name, kind in kinds.items()},
    )


def _c_record(*fields: Any) -> str:
    return f"{{{', '.join(map(str, fields))}}}"


def _c_array(kind: str, items: Iterable[Any]) -> str:
    """Write an array that a record points to."""
    inside = lines_of(map(str, items), "  ")
    return f"(const {kind}[]){{{inside}}}" if inside else "NULL"


def _utf8(text: str, column: Input) -> bytes:
    """UTF-8 of a level, which orders levels as ``strcmp`` does."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise ValueError(
            f"model: text in C must be Unicode without a NUL character, found the level {text!r} "
            f"of {column.name!r}. Rename the level before the fit."
        )
    return encoded


LANGUAGES: dict[str, tuple[str, Callable[[Lowered, Sequence[Any], str], list[str]]]] = {
    "c": ("score.c", _c_data),
    "javascript": (
        "score.mjs",
        partial(_script_data, comment="// ", declaration="const {} = {};", literal=_javascript),
    ),
    "python": (
        "score.py",
        partial(_script_data, comment="# ", declaration="{} = {}", literal=ascii),
    ),
}
