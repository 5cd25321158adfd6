"""Figures and pages of the review app, built from a run directory."""
