"""One file a page of the review app; pages draw, `evaluation/` counts."""
