"""From a source of films to a film store."""
