"""Fits on several machines: a driver that decides, and workers that hold rows."""
