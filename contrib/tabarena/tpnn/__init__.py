"""Functional ANOVA models in TabArena."""
