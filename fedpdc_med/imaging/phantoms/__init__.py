"""Synthetic films (digital phantoms)."""
