"""Which components to include, and which to keep."""
