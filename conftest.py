"""Modules whose doctests need what this machine may lack."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["src/tpnn/solvers/descent/cuda.py"]
