"""Whole runs evaluated and compared: means, how sure they are, tables. No formula of a metric lives here."""
