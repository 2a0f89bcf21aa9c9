"""The policy language, and the live policy."""
