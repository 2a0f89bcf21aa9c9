"""Where implementations are chosen; a module a role, so that a process loads what its own role needs."""
