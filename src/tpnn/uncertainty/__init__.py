"""Bands: the posterior of the fitted components, from a problem and its solution."""
