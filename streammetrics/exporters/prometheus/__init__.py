"""A report and a process's vitals as the text that Prometheus scrapes. Nothing else imports its client."""
