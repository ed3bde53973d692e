"""MLflow: models are logged, registered and served as the one file that they are, without pickle.

``tpnn.mlflow`` is this module. A saved model needs ``tpnn-runtime`` alone to be served.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tpnn import __version__
from tpnn._utils.rules import optional
from tpnn.model.loading import Loaded, LoadedClassifier, load
from tpnn.model.model import AnovaModel, part_names, row_scores

FLAVOR, FILE = "tpnn", "model.tpnn"
OUTPUTS = ("predictions", "probabilities", "contributions")
NEEDED = (f"tpnn-runtime=={__version__}", "pandas")  # to serve a model


def save_model(
    model: Any,
    path: str | os.PathLike[str],
    mlflow_model: Any = None,
    signature: Any = None,
    pip_requirements: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write a model to a folder in the format of MLflow.

    Parameters
    ----------
    model : fitted estimator, loaded model or AnovaModel
        What to save; the folder holds it in the file ``model.tpnn``.
    path : path
        A folder that is empty, or not there.
    mlflow_model : mlflow.models.Model, optional
        The entry to fill, as ``log_model`` passes it.
    signature : mlflow.models.ModelSignature, optional
        Columns and outputs; by default they are those of the model. Columns are of any type there,
        because the model reads whole numbers and categories where MLflow would refuse them.
    pip_requirements : list of str, optional
        What serving installs; by default ``tpnn-runtime`` of this version, and pandas.
    metadata : dict, optional
        Further entries.

    Examples
    --------
    >>> from tpnn import mlflow
    >>> mlflow.save_model(model, "folder")  # doctest: +SKIP
    >>> mlflow.load_model("folder").predict(X)  # doctest: +SKIP
    """
    mlflow, folder = _import_mlflow(), Path(path)
    frozen = _frozen(model)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(
            f"path: an empty folder is needed, found {os.fspath(path)!r} with files in it. Pass "
            "another one."
        )
    folder.mkdir(parents=True, exist_ok=True)
    frozen.save(folder / FILE)
    entry = mlflow.models.Model() if mlflow_model is None else mlflow_model
    entry.signature = _signature_of(frozen) if signature is None else signature
    if metadata is not None:
        entry.metadata = dict(metadata)
    _write_environment(folder, NEEDED if pip_requirements is None else pip_requirements)
    mlflow.pyfunc.add_to_model(
        entry, loader_module=__name__, data=FILE, conda_env="conda.yaml",
        python_env="python_env.yaml",
    )  # fmt: skip
    kinds = zip(frozen.feature_names, frozen.encoder.features, strict=True)
    entry.add_flavor(
        FLAVOR, tpnn_version=__version__, data=FILE, features={n: f.kind for n, f in kinds}
    )
    entry.save(os.fspath(folder / "MLmodel"))


def log_model(model: Any, name: str = "model", **arguments: Any) -> Any:
    """Log a model to the current run of MLflow; return what ``mlflow.models.Model.log`` returns.

    ``arguments`` are those of ``save_model`` and of ``Model.log``, such as
    ``registered_model_name``.
    """
    mlflow = _import_mlflow()
    return mlflow.models.Model.log(
        artifact_path=None, name=name, flavor=sys.modules[__name__], model=model, **arguments
    )


def load_model(model_uri: str, dst_path: str | None = None) -> Loaded:
    """Read a model that was saved or logged; it is what ``tpnn.load`` returns.

    ``model_uri`` is a path or an address such as ``"runs:/<id>/model"`` or ``"models:/name/3"``.
    """
    mlflow = _import_mlflow()
    folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=model_uri, dst_path=dst_path))
    flavors = mlflow.models.Model.load(os.fspath(folder)).flavors
    if FLAVOR not in flavors:
        raise ValueError(
            f"model_uri: a model that tpnn.mlflow saved is needed, found one of {sorted(flavors)}. "
            "Load it with mlflow.pyfunc."
        )
    return load(folder / flavors[FLAVOR]["data"])


def _signature_of(model: AnovaModel) -> Any:
    """Columns of a model, what it returns, and the parameter ``output`` of ``predict``."""
    mlflow = _import_mlflow()
    models, types = mlflow.models, mlflow.types
    columns = model.encoder.column_names or [None] * model.encoder.n_columns
    any_type = types.schema.AnyType()
    inputs = types.Schema([types.ColSpec(any_type, name) for name in columns if name is not None])
    output = types.ParamSpec("output", types.DataType.string, OUTPUTS[0])
    outputs = types.Schema([types.ColSpec(any_type)])
    return models.ModelSignature(
        inputs if inputs.inputs else None, outputs, types.ParamSchema([output])
    )


class Served:
    """A model as ``mlflow.pyfunc`` wants it."""

    def __init__(self, model: Loaded) -> None:
        self.model = model

    def predict(self, data: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Predict, or with ``params={"output": ...}`` return probabilities or contributions.

        Contributions are a table: the intercept, every component and the remainder, in columns of
        their names, which add up to the raw score. With several outputs they are those of the
        columns ``<name>: <output>``.
        """
        import pandas as pd

        output, model = (params or {}).get("output", OUTPUTS[0]), self.model
        if output == "predictions":
            return model.predict(data)
        if output == "contributions":
            return pd.DataFrame(_contributions(model.model_, data))
        if output == "probabilities" and isinstance(model, LoadedClassifier):
            return pd.DataFrame(model.predict_proba(data), columns=model.classes_)
        kinds = OUTPUTS if isinstance(model, LoadedClassifier) else (OUTPUTS[0], OUTPUTS[2])
        raise ValueError(
            f"output: must be one of {', '.join(kinds)} for this model, found {output!r}. Pass for "
            f"example params={{'output': {OUTPUTS[2]!r}}}."
        )


def _contributions(model: AnovaModel, X: Any) -> dict[str, Any]:
    """Intercept, components and remainder of each row by name; their sum is the raw score."""
    scores = row_scores(model, X)  # (n, n_parts, K)
    names, outputs = ["intercept", *part_names(model)], model.output_names or [""]
    columns = {}
    for k, output in enumerate(outputs):
        values = [np.full(len(scores), model.intercepts[k]), *scores[..., k].T]
        for name, column in zip(names, values, strict=True):
            columns[f"{name}: {output}" if output else name] = column
    return columns


def _load_pyfunc(path: str) -> Served:
    return Served(load(path))


def _frozen(model: Any) -> AnovaModel:
    frozen = getattr(model, "model_", model)
    if not isinstance(frozen, AnovaModel):
        raise TypeError(
            f"model: must be a fitted estimator, a loaded model or its model_, found "
            f"{type(model).__name__}. Fit it first."
        )
    return frozen


def _write_environment(folder: Path, requirements: Sequence[str]) -> None:
    """Say what serving installs; JSON is YAML, too."""
    python = platform.python_version()
    (folder / "requirements.txt").write_text("\n".join(requirements) + "\n")
    virtual = {"python": python, "dependencies": ["-r requirements.txt"]}
    (folder / "python_env.yaml").write_text(json.dumps(virtual, indent=1))
    conda = {
        "name": "mlflow-env",
        "channels": ["conda-forge"],
        "dependencies": [f"python={python}", "pip", {"pip": ["mlflow", *requirements]}],
    }
    (folder / "conda.yaml").write_text(json.dumps(conda, indent=1))


def _import_mlflow() -> Any:
    for part in ("artifacts", "pyfunc", "types"):
        optional(f"mlflow.{part}", "tpnn.mlflow", "tpnn[mlflow]")
    return sys.modules["mlflow"]
