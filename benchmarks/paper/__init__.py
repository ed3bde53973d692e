"""The paper's tables and figures: ``python -m benchmarks.paper``, from the repository root."""
