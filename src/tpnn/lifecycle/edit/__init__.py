"""Edits: changes of a frozen model by hand or by a rule, and the log of them."""
