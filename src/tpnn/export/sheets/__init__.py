"""Sheets: a model as tables that people read, sign and calculate with."""
