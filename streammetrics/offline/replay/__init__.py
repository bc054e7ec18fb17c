"""`streammetrics replay`: files in, one report out, on one core or several."""
