"""Helpers for every other folder; they import nothing else of the package."""
