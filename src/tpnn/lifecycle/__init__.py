"""Several models on common nodes, and their weighted mean."""
