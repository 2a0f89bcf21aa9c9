"""Floor 0: the ground that every part stands on; it knows none of them."""
