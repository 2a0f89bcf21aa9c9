"""What a call would do: shell commands and intents."""
