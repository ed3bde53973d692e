"""Models of other libraries as ours."""
