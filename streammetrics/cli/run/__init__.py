"""`streammetrics run`: one process, or several under one parent."""
