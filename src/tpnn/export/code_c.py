"""C: a model as one file of C99."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tpnn.export.code_c_text import (
    CODES,
    CONTRIBUTIONS,
    INCLUDES,
    INVERSES,
    LOCATING,
    NUMBER_LEVEL_READER,
    NUMBER_READER,
    PREDICT,
    RAW_SCORES,
    RESERVED_WORDS,
    TEXT_LEVEL_READER,
    TYPES,
)
from tpnn.export.lowering import Grid, Input, Place
from tpnn.export.plan import (
    EITHER,
    NUMBERS,
    TEXT,
    WHOLE,
    Plan,
    level_codes,
    lines_of,
    quoted,
    reading,
)
from tpnn.table.levels import level_text
from tpnn.table.table import DATE, DURATION, NUMBER

MAX_NAME_LENGTH = 40
RESERVED = frozenset(RESERVED_WORDS.split())
WORDS = {
    NUMBER: "a number",
    DATE: "seconds since 1970-01-01 in UTC",
    DURATION: "seconds",
    TEXT: "text",
    NUMBERS: "a number that is a level",
    WHOLE: "a whole number that is a level, in decimal digits",
    EITHER: "text, or a number in its shortest decimal form",
}
USAGE = """\
    #include "model.c"
    struct tpnn_row row = {{...}};
    double prediction[TPNN_OUTPUTS];
    int refused = tpnn_predict(&row, {offset}prediction);

The functions return 0. If they refuse a row, because it has an infinite number{bad_offset},
they return the number of that member, from 1{bad_argument}. NAN and NULL are missing values;
text is UTF-8; a level that the fit has not seen is no error. Link with -lm, and compile without
-ffast-math."""
_NUMBER_READINGS = (NUMBER, DATE, DURATION, NUMBERS)
_ANSWERS = (("raw_scores", "raw"), ("predict", "prediction"))


def write_c(plan: Plan) -> str:
    """File with the functions ``tpnn_raw_scores`` and ``tpnn_predict``."""
    names = member_names(plan)
    heading = "\n".join(f" * {line}".rstrip() for line in _heading(plan))
    blocks = [
        f"/*\n{heading}\n */\n{INCLUDES}",
        _declarations(plan, names),
        CODES + TYPES,
        _readers(plan, names),
        _data(plan),
        LOCATING,
        _functions(plan, names),
    ]
    return "\n".join(blocks)


def member_names(plan: Plan) -> list[str]:
    """Members of the row: one for each input, then that of an offset."""
    offset = plan.lowered.offset
    columns = [known.name for known in plan.lowered.inputs] + ([offset.name] if offset else [])
    return identifiers(columns)


def identifiers(names: Iterable[str]) -> list[str]:
    """Distinct identifiers that look like the names.

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
    written = [chr(x) if x in plain else f"\\{x:03o}" for x in text.encode()]
    return '"' + "".join(written) + '"'


def _heading(plan: Plan) -> list[str]:
    lowered = plan.lowered
    usage = USAGE.format(
        offset="offset, " if lowered.needs_offset else "",
        bad_offset=" or no valid offset" if lowered.offset or lowered.needs_offset else "",
        bad_argument=", or -1 for the offset" if lowered.needs_offset else "",
    )
    lines = usage.splitlines()
    if plan.contributions:
        lines += ["tpnn_contributions gives TPNN_COMPONENTS x TPNN_OUTPUTS values of components."]
    return plan.heading(WORDS, lines)


def _declarations(plan: Plan, names: Sequence[str]) -> str:
    """Write what a caller sees."""
    lowered = plan.lowered
    members = [
        f"    {_type(known)}{name}; /* {quoted(known.name)} */"
        for known, name in zip(lowered.inputs, names, strict=False)
    ]
    if lowered.offset is not None:
        members.append(f"    double {names[-1]}; /* {quoted(lowered.offset.name)} */")
    offset = "double offset, " if lowered.needs_offset else ""
    row = "const struct tpnn_row *row"
    functions = [f"int tpnn_{what}({row}, {offset}double *{name});" for what, name in _ANSWERS]
    if plan.contributions:
        functions.append(f"int tpnn_contributions({row}, double *contributions);")
    sizes = {"OUTPUTS": lowered.n_outputs, "COMPONENTS": len(lowered.grids)}
    enum = ", ".join(f"TPNN_{name} = {size}" for name, size in sizes.items())
    return "\n".join(
        [
            f"enum {{ {enum} }};",
            "",
            "struct tpnn_row {",
            *(members or ["    char unused;"]),
            "};",
            "",
            *functions,
            *_label_lines("classes", [str(label) for label in plan.classes]),
            *_label_lines("outputs", lowered.outputs),
            *(_component_lines(plan) if plan.contributions else []),
            "",
        ]
    )


def _label_lines(name: str, labels: Sequence[str]) -> list[str]:
    if not labels:
        return []
    items = lines_of(map(c_text, labels), "")
    return [f"const char *const tpnn_{name}[] = {{{items}}};"]


def _component_lines(plan: Plan) -> list[str]:
    lines = ["/* Components, in the order of their contributions:"]
    lines += [f" *   {', '.join(map(quoted, names))}" for names in plan.components]
    return [*lines, " */"]


def _type(known: Input) -> str:
    return "double " if reading(known) in _NUMBER_READINGS else "const char *"


def _readers(plan: Plan, names: Sequence[str]) -> str:
    """Write the functions that read a row; those that no column needs are left out."""
    inputs = plan.lowered.inputs
    used = {reading(known) for known in inputs}
    blocks = [
        NUMBER_READER if used & {NUMBER, DATE, DURATION} else "",
        NUMBER_LEVEL_READER if NUMBERS in used else "",
        TEXT_LEVEL_READER if used & {TEXT, WHOLE, EITHER} else "",
    ]
    blocks += [_levels(known, number) for number, known in enumerate(inputs) if known.levels]
    reads = [
        f"    code[{number}] = {_read(known, name, number)};\n"
        for number, (known, name) in enumerate(zip(inputs, names, strict=False))
    ]
    head = "static void tpnn_read(const struct tpnn_row *row, double *x, int *code)\n{\n"
    body = "".join(reads)
    parts = {"row": "row->", "x": "&x[", "code": "code["}  # how each is used
    unused = [f"    (void){name};\n" for name, use in parts.items() if use not in body]
    blocks.append(f"{head}{''.join(unused)}{body}}}\n")
    return "\n".join(filter(None, blocks))


def _read(known: Input, name: str, number: int) -> str:
    if not known.levels:
        value = f"row->{name}" if known.unit == 1 else f"row->{name} / {known.unit!r}"
        return f"tpnn_number({value}, &x[{number}])"
    kind = "number" if reading(known) == NUMBERS else "text"
    return f"tpnn_code_of_{kind}(row->{name}, tpnn_levels_{number}, {len(known.levels)})"


def _levels(known: Input, number: int) -> str:
    """Write the levels of a column in increasing order."""
    kind = "number" if reading(known) == NUMBERS else "text"
    if kind == "number":
        pairs = sorted((float(level), code) for level, code in level_codes(known).items())
        items = [f"{{{level!r}, {code}}}" for level, code in pairs]
    else:
        texts = sorted(
            (_checked(level_text(x), known), code) for code, x in enumerate(known.levels)
        )
        items = [f"{{{c_text(text.decode())}, {code}}}" for text, code in texts]
    return _array(f"struct tpnn_{kind}_level", f"levels_{number}", items) + "\n"


def _checked(text: str, known: Input) -> bytes:
    """UTF-8 of a level, which orders levels as ``strcmp`` does."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise ValueError(
            f"model: text in C must be Unicode without a NUL character, found the level {text!r} "
            f"of {known.name!r}. Rename the level before the fit."
        )
    return encoded


def _data(plan: Plan) -> str:
    """Write nodes, cells and intercepts."""
    lowered = plan.lowered
    lines = []
    for number, place in enumerate(lowered.places):
        lines += _place_lines(place, number, lowered.inputs[place.input].name)
    for number, grid in enumerate(lowered.grids):
        lines += _grid_lines(grid, number)
    places = [_place(place, number) for number, place in enumerate(lowered.places)]
    grids = [
        f"{{{len(grid.places)}, tpnn_axes_{g}, tpnn_strides_{g}, tpnn_cells_{g}}}"
        for g, grid in enumerate(lowered.grids)
    ]
    sizes = {"INPUTS": len(lowered.inputs), "PLACES": len(lowered.places)}
    enum = ", ".join(f"TPNN_{name} = {size}" for name, size in sizes.items())
    return "\n".join(
        [
            f"enum {{ {enum} }};",
            *lines,
            _array("struct tpnn_place", "places", places),
            _array("struct tpnn_grid", "grids", grids),
            _array("double", "intercepts", map(repr, lowered.intercepts.tolist())),
            "",
        ]
    )


def _place_lines(place: Place, number: int, name: str) -> list[str]:
    nodes = _array("double", f"nodes_{number}", map(repr, place.nodes.tolist()))
    return [
        f"/* {quoted(name)} */",
        *([nodes] if len(place.nodes) else []),
        _array("int", f"lower_{number}", map(str, place.lower.tolist())),
        _array("double", f"fraction_{number}", map(repr, place.fraction.tolist())),
    ]


def _place(place: Place, number: int) -> str:
    nodes = f"tpnn_nodes_{number}" if len(place.nodes) else "NULL"
    arrays = f"{nodes}, tpnn_lower_{number}, tpnn_fraction_{number}"
    return f"{{{place.input}, {len(place.nodes)}, {arrays}}}"


def _grid_lines(grid: Grid, number: int) -> list[str]:
    return [
        f"/* {', '.join(map(quoted, grid.names))} */",
        _array("int", f"axes_{number}", map(str, grid.places)),
        _array("int", f"strides_{number}", map(str, grid.strides)),
        _array("double", f"cells_{number}", map(repr, grid.cells.ravel().tolist())),
    ]


def _array(kind: str, name: str, items: Iterable[str]) -> str:
    """Write an array; one without items, which C cannot have, gets a zero."""
    return f"static const {kind} tpnn_{name}[] = {{{lines_of(items, '') or '{0}'}}};"


def _functions(plan: Plan, names: Sequence[str]) -> str:
    """Write the functions that users call."""
    argument, passed = ("double offset, ", "offset, ") if plan.lowered.needs_offset else ("", "")
    checks, added = _offset(plan, names)
    inverse = INVERSES[plan.lowered.link]
    return "".join(
        [
            RAW_SCORES.format(argument=argument, checks=checks, added=added),
            PREDICT.format(argument=argument, passed=passed, inverse=inverse),
            CONTRIBUTIONS if plan.contributions else "",
        ]
    )


def _offset(plan: Plan, names: Sequence[str]) -> tuple[str, str]:
    """Write the lines that check an offset, and that add it."""
    offset = plan.lowered.offset
    if offset is None and not plan.lowered.needs_offset:
        return "", ""
    value, refused = (f"row->{names[-1]}", str(len(names))) if offset else ("offset", "-1")
    check = f"!isfinite({value})"
    if offset and offset.is_exposure:
        check = f"{check} || {value} <= 0"
    added = f"log({value})" if offset and offset.is_exposure else value
    return (
        f"    if ({check}) return {refused};\n",
        f"    for (int k = 0; k < TPNN_OUTPUTS; k++) raw[k] += {added};\n",
    )
