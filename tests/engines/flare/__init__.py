"""FLARE. A package, so that its processes end with the last test that needs them."""
