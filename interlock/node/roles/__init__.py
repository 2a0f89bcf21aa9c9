"""One module a role that listens or runs."""
