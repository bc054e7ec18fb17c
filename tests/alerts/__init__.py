"""The table of alerts, the files made of it and the runbook pages; `cases` says of every alert when it fires and when not."""
