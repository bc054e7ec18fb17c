"""One module a library: how each is asked. Imported by the worker in the golden environment only."""
