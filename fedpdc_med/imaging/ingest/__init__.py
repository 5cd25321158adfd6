"""Imports films from a source into a film store."""
