"""Floor 3: the daemon and the command line; the only floor that wires floors together."""
