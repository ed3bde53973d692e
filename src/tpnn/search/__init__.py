"""Which components to include, and which of them to keep."""
