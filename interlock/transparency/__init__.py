"""Floor 1: an append-only log, from the hash up."""
