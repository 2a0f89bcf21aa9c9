"""Floor 2: signed policy, shared; and what the counts teach."""
