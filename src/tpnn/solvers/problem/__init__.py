"""A table and its targets as a solver sees them, and what a solver returns."""
