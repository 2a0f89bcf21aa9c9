"""Measurements of interlock against what a user could pick instead; see METHOD.md."""
