"""Stability under re-sampling: ``python -m benchmarks.stability``, from the repository root."""
