"""The mathematics of unique components: subsets, masses, purification, shapes, Shapley values."""
