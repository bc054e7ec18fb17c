"""Kafka: what is read of it, what is written to it, and how its client is kept alive. Nothing else imports its client."""
