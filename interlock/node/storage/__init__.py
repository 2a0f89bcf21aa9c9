"""The storage protocols of the lower floors, on SQLite."""
