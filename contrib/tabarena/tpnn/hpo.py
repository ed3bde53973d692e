"""The search space of the model: that of the library, of seven parameters."""

from __future__ import annotations

from tabarena.models.tpnn.model import TPNNModel
from tabarena.utils.config_utils import ConfigGenerator

from tpnn.estimators.autogluon import search_space

gen_tpnn = ConfigGenerator(model_cls=TPNNModel, manual_configs=[{}], search_space=search_space())
