"""The process around a command: signals, threads, logs and garbage collection."""
