"""The cheapest change of a row that reaches a target, or the proof that there is none."""
