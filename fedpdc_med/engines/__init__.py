"""Where sites run."""
