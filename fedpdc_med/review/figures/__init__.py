"""Plotly figures: a data frame in, a figure out."""
