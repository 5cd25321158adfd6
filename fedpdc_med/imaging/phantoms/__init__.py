"""Films drawn by code."""
