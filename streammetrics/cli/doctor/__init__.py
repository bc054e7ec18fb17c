"""`streammetrics doctor`: checks of settings, servers and data, and their findings."""
