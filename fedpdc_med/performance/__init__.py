"""How fast things are: benchmarks of speed and cost."""
