"""Faults on real servers under steady traffic: `make partitions` and `make soak`. Afterwards every number equals a replay of the topics."""
