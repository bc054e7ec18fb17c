"""A deterministic simulation of the whole process: a seed decides the order of everything, and every fault.

The worker's loop, the engine, prefetch, commits, the publisher, the topic of results, the files of results and the webhook are the
product's own. Kafka, Redis, the clock, the disk and the receiver of the webhook are simulated, in one thread.

    schedule    a seed -> settings, the share of each fault, and a list of events
    fate        the one source of chance, and what was covered
    kafka       logs and their readers, dead letters, the topic of results
    redis       the store behind a bad network: lost replies, failovers, evicted keys
    disk        the files of results, on a disk that may be full
    receiver    the receiver of the webhook
    exporter    one process that publishes
    world       workers and exporters over all of these; carries out the events of a schedule
    journal     which records the committed state has processed, in which order
    laws        the comparison with the oracle at the end
    search      runs many seeds, and shrinks the events of one that fails
    bugs        known bugs as patches, and how soon the search finds each

`python -m tests.simulation --seeds 1000` runs it. Each event has a seed of its own, so the others behave almost the same without it.
"""
