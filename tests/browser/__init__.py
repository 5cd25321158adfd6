"""The review app in a real browser. A package, so that the browser is closed when its last test is over."""
