"""Kafka: the source of events, and the sinks for dead letters, results and simulated traffic. Only this folder imports kafka-python.

`source` reads; the modules beside it each solve one of its problems: who owns a task (`consumer`), where it starts and whether the log is
still the same (`stored_offsets`), whether brokers answer (`health`). `patches` holds our fixes for the client.
"""
