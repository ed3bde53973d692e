"""Exports of a model, run where they belong and compared with the model."""
