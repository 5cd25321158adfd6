"""Engines: how the sites of a federation are run, on this machine or over NVIDIA FLARE."""
