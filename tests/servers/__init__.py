"""Real servers for tests and benchmarks: a Kafka broker, Redis alone and in a cluster, Prometheus, Alertmanager.

Each is a context manager that runs on free loopback ports in a directory of its own:

    with KafkaBroker() as broker:
        broker.create_topic("events", partitions=4)

`install` brings the programs, `tools` finds them, `process` runs them, the other modules know one server each.
"""
