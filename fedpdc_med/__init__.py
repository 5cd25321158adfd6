"""Federated training of chest X-ray classifiers with public data set correction. Research use only."""

__version__ = "0.1.0"

RESEARCH_USE_ONLY = "Research use only: not a medical device, not for diagnosis."
