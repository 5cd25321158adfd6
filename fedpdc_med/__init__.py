"""Federated training of chest X-ray classifiers corrected with a public reference set. Research use only."""

__version__ = "0.1.0"

RESEARCH_USE_ONLY = "Research use only: not a medical device, not for diagnosis."
