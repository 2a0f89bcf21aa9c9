"""Floor 2: where a call enters and leaves the guard."""
