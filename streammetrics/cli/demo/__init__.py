"""The demo: simulated traffic, one process and a screen of live numbers."""
