"""One module a coding agent: its payloads to event and decision, and back."""
