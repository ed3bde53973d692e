"""A frozen model in other languages: SQL and source code that give the model's own numbers."""
