"""The process around a command: signals and threads."""
