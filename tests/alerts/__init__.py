"""The table of alerts, its generated files, and the runbook pages. `cases` says when each alert fires and when not."""
