"""Measurements of what the library reaches: ``python -m benchmarks``, from the repository root."""
