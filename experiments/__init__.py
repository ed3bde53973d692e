"""The paper's tables and figures: ``python -m experiments``, from the repository root."""
