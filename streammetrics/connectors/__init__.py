"""The only place where clients are imported: Kafka and files to read from, Redis and memory to keep state in, HTTP to show."""
