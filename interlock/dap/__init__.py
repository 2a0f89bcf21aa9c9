"""Floor 1: counts that no one can read alone."""
