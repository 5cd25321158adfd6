"""Benchmarks of speed and cost."""
