"""A run on disk: its plan, configuration, rounds and predictions."""
