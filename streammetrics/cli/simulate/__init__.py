"""`streammetrics simulate`: made-up traffic to Kafka or a file."""
