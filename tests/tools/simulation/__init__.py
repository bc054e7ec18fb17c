"""A deterministic simulation of the whole process: a seed decides the order of everything, and every fault.

The worker's loop, the engine, prefetch, commits, the publisher and the feed of results are the product's own. Kafka, Redis and the
clock are simulated, in one thread.

    schedule    a seed -> settings, the share of each fault, and a list of events
    fate        the one source of chance, and what was covered
    kafka       logs and their readers, dead letters, the topic of results
    redis       the store behind a bad network: lost replies, failovers, evicted keys
    exporter    one process that publishes
    world       workers and exporters over all of these; carries out the events of a schedule
    journal     which records the committed state has processed, in which order
    laws        the comparison with the oracle at the end
    search      runs many seeds, and shrinks the events of one that fails
    bugs        known bugs as patches, and how soon the search finds each

`python -m tests.tools.simulation --seeds 1000` runs it. Each event has a seed of its own, so the others behave almost the same without it.
"""
