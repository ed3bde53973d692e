"""Losses and links."""
