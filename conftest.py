"""Modules whose doctests need what this machine may lack."""

from importlib.util import find_spec

NEEDS = {
    "triton": "src/tpnn/solvers/descent/cuda.py",
    "autogluon": "src/tpnn/estimators/autogluon.py",
}
collect_ignore = [path for library, path in NEEDS.items() if not find_spec(library)]
