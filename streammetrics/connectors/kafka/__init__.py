"""Kafka: the source of events, the dead-letter topic, and the sink for simulated traffic. Only this folder imports kafka-python.

`source` reads; the modules beside it each solve one of its problems: who owns a task (`assignment`), where it starts (`start_offsets`),
whether the log is still the same (`log_identity`), whether brokers answer (`liveness`). `patches` holds our fixes for the client.
"""
