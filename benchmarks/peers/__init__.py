"""Comparison with other libraries: ``python -m benchmarks.peers``, from the repository root."""
