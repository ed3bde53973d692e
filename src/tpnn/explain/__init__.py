"""Explanations of a frozen model."""
