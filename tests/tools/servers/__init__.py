"""Real servers for tests and benchmarks: a Kafka broker, Redis alone and in a cluster, a schema registry, Prometheus, Alertmanager.

Each is a context manager. It uses free loopback ports and its own directory:

    with KafkaBroker() as broker:
        broker.create_topic("events", partitions=4)

`install` installs the programs, `tools` finds them and `process` runs them. Every other module handles one server.
"""
