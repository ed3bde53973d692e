"""A table and its targets as a solver wants them, and what a solver hands back."""
