"""Two models on the same rows: what changed, and by how much."""
