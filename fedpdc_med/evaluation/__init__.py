"""The numbers that clinicians need, as pure functions of predictions."""
