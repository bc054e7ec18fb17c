"""Redis: the store of tasks, the shelf of what all processes see, and what is known of the server. Nothing else imports its client."""
