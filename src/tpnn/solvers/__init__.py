"""The problem that a solver works on, and the solvers."""
