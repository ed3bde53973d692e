"""to_code: a model as one source file without dependencies."""

from __future__ import annotations

from collections.abc import Callable

from tpnn.export.code_c import write_c
from tpnn.export.code_javascript import write_javascript
from tpnn.export.code_python import write_python
from tpnn.export.lowering import checked_lowering
from tpnn.export.plan import Plan
from tpnn.model.model import AnovaModel

LANGUAGES: dict[str, Callable[[Plan], str]] = {
    "c": write_c,
    "javascript": write_javascript,
    "python": write_python,
}


def to_code(model: AnovaModel, language: str, contributions: bool) -> str:
    """Text of a file that gives the raw score and the prediction of one row.

    Parameters
    ----------
    model : AnovaModel
        The model.
    language : {"c", "javascript", "python"}
        Language of the file.
    contributions : bool
        Whether the file gives the value of every component, too.
    """
    if language not in LANGUAGES:
        raise ValueError(
            f"language: must be one of {', '.join(LANGUAGES)}, found {language!r}. "
            "Pass 'c', for example."
        )
    return LANGUAGES[language](Plan.of(model, checked_lowering(model), contributions))
