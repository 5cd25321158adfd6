"""Numbers a clinician needs, as pure functions of predictions."""
