"""A run as it lies on disk: its plan, configuration, rounds and predictions."""
