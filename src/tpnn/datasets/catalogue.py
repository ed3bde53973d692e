"""The data sets of the ANOVA-TPNN paper, by name."""

from __future__ import annotations

import os
from http.client import HTTPException
from importlib import resources
from pathlib import Path

import pandas as pd

from tpnn._utils.rules import optional

_SHIPPED = ("calhousing", "abalone", "wine")
_OPENML_IDS = {"online_news": 4545, "churn": 42178, "credit": 1597, "letter": 6, "madelon": 1485}
_OPENML_DROPPED = ["url", "timedelta", "customerID"]  # not predictive, omitted in the paper
_WITHOUT_OPENML = ("fico_heloc", "drybean", "celeba_attr", "online_news_subset", "credit_subset")
_NAMES = (*_SHIPPED, *_OPENML_IDS, *_WITHOUT_OPENML)


def load(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Load a data set by name.

    "calhousing", "abalone" and "wine" come with the package. Any other data set is read from the
    file ``<name>.parquet``, with the target as its last column, in the folder given by the
    environment variable ``TPNN_DATA``. If there is no such file, "online_news", "churn",
    "credit", "letter" and "madelon" are fetched from OpenML, with the target coded as there.

    Parameters
    ----------
    name : str
        Name of the data set.

    Returns
    -------
    X : DataFrame of shape (n, p)
        Features, one named column each.
    y : Series of shape (n,)
        Target, with its name.

    Raises
    ------
    ValueError
        If the name is unknown and the folder ``TPNN_DATA`` has no file of that name.
    FileNotFoundError
        If the name is known, but neither ``TPNN_DATA`` nor OpenML provides the data.
    ImportError
        If a Parquet file must be read and pyarrow is not installed.

    Examples
    --------
    >>> from tpnn.datasets import load
    >>> X, y = load("abalone")
    >>> X.shape, y.name
    ((4177, 8), 'Rings')
    """
    if name in _SHIPPED:
        return _split(_read_shipped(name))
    folder = os.environ.get("TPNN_DATA")
    path = Path(folder) / f"{name}.parquet" if folder else None
    if path is not None and path.is_file():
        optional("pyarrow", path.name, "tpnn[data]")
        return _split(pd.read_parquet(path, engine="pyarrow"))
    if name not in _NAMES:
        raise ValueError(
            f"name: must be one of {', '.join(_NAMES)} or a Parquet file in the folder "
            f"TPNN_DATA, found {name!r} ({_found(path)}). Use a known name, or {_remedy(name)}"
        )
    if name not in _OPENML_IDS:
        raise _missing(name, f"{_found(path)} and no OpenML data set of that name")
    return _fetch_openml(name, path)


def _read_shipped(name: str) -> pd.DataFrame:
    """Return the table of a data set that comes with the package."""
    source = resources.files(__package__) / "data" / f"{name}.csv.gz"
    with resources.as_file(source) as path:
        # Read as text, because only `astype` converts exactly in every version of pandas.
        text = pd.read_csv(path, dtype=str, compression="gzip")
    types = {column: "float64" for column in text.columns if column != "Sex"}
    if name == "calhousing":
        return _average_per_household(text.astype(types))
    return text.astype({**types, text.columns[-1]: "int64"})


def _average_per_household(counts: pd.DataFrame) -> pd.DataFrame:
    """Replace the counts of a block group by averages, e.g. AveRooms = Rooms / Households."""
    households = counts["Households"]
    averages = counts.assign(
        AveRooms=counts["Rooms"] / households,
        AveBedrms=counts["Bedrooms"] / households,
        AveOccup=counts["Population"] / households,
    )
    first = ["MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup"]
    return averages[[*first, "Latitude", "Longitude", "MedHouseVal"]]


def _split(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Split a table into its features and its last column, the target."""
    return table.iloc[:, :-1], table.iloc[:, -1]


def _fetch_openml(name: str, path: Path | None) -> tuple[pd.DataFrame, pd.Series]:
    """Fetch a data set from OpenML, or raise a FileNotFoundError if that fails."""
    from sklearn.datasets import fetch_openml

    try:
        bunch = fetch_openml(data_id=_OPENML_IDS[name], as_frame=True)
    except (OSError, HTTPException, ValueError) as error:  # OpenML's own error is a ValueError
        reason = f"OpenML data set {_OPENML_IDS[name]} out of reach ({error})"
        raise _missing(name, f"{_found(path)} and {reason}") from error
    return bunch.data.drop(columns=_OPENML_DROPPED, errors="ignore"), bunch.target


def _missing(name: str, found: str) -> FileNotFoundError:
    """Return the error for a known data set that is found nowhere."""
    return FileNotFoundError(
        f"name: {name!r} must be in the folder TPNN_DATA or at OpenML, found {found}. Please "
        f"{_remedy(name)}"
    )


def _found(path: Path | None) -> str:
    """Say what was found instead of the Parquet file at `path`."""
    return "TPNN_DATA not set" if path is None else f"no file {path}"


def _remedy(name: str) -> str:
    """Say how to make the data set `name` available."""
    return (
        f"set the environment variable TPNN_DATA to a folder that contains {name}.parquet "
        "with the target as its last column."
    )
