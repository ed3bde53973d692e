"""What TabArena says about the model."""

from __future__ import annotations

from tabarena.models._method_metadata import MethodMetadata
from tabarena.models._model_info import ModelInfo
from tabarena.models.tpnn.hpo import gen_tpnn
from tabarena.models.tpnn.model import TPNNModel

tpnn_method_metadata = MethodMetadata.config(
    method="tpnn",
    suite="",
    ag_key=TPNNModel.ag_key,
    config_default="tpnn_c1_default_BAG_L1",
    display_name="TPNN",
    date="",
    cache_type="r2",
    cache_kwargs={},
    compute="cpu",
    is_bag=True,
    date_introduced="",
    verified=False,
)

tpnn_info = ModelInfo(
    model_cls=TPNNModel,
    search_space=gen_tpnn,
    method_metadata=tpnn_method_metadata,
    pip_extra=("tpnn[autogluon]>=1.0",),
)
