"""check_shape: which shapes there are, and which features can have one."""

from __future__ import annotations

from tpnn.anova.constraints import SIGNS
from tpnn.table.encoder import TableEncoder
from tpnn.table.frame import NOMINAL


def check_shape(encoder: TableEncoder, index: int, shape: str, argument: str) -> None:
    """Refuse an unknown shape, or the shape of a feature without order."""
    if shape not in SIGNS:
        raise ValueError(
            f"{argument}: must be one of {', '.join(SIGNS)}, found {shape!r}. "
            "Pass 'increasing', for example."
        )
    if encoder.features[index].kind == NOMINAL:
        raise ValueError(
            f"{argument}: a shape needs an order, found the nominal feature "
            f"{encoder.feature_names[index]!r}. Leave it out, or make it an ordered category."
        )
