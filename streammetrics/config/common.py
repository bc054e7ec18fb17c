"""The settings that people change, and when. All others have defaults that only measurements or a rare need should move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MINIMAL: Final[Mapping[str, str]] = {
    "kafka.bootstrap_servers": "your brokers",
    "kafka.topics": "the topics with lists and feedback",
    "kafka.dead_letter_topic": "where refused events go",
    "redis.url": "your Redis",
    "join.grades": "what each action of your feedback is worth",
}
"""The settings of a first configuration, each with what to write there."""

COMMON: Final[Mapping[str, str]] = {
    "kafka.bootstrap_servers": "Always.",
    "kafka.topics": "Always, unless your topics have these names.",
    "kafka.group_id": "For a second system on the same brokers.",
    "kafka.dead_letter_topic": "To name the topic as your others.",
    "kafka.results_topic": "To send results to a warehouse or another service.",
    "kafka.start": "To leave out the history that the topics hold.",
    "kafka.security_protocol": "If your brokers need TLS or a login. Then also the kafka.ssl_ and kafka.sasl_ settings that they ask for.",
    "redis.url": "Always.",
    "redis.cluster": "If your Redis is a cluster.",
    "redis.namespace": "For a second system in the same Redis, or to start again from nothing.",
    "events.reader": "If your events are not in the native format. `streammetrics config --reader` prints one to start from.",
    "join.grades": "To say what each action is worth. Results depend on it most.",
    "join.gap_ms": "If a visit of your users pauses for longer, or if visits follow each other sooner.",
    "join.attribution_ms": "If feedback comes later than this after its list, such as purchases.",
    "join.lateness_ms": "If `streammetrics_late_total` grows.",
    "metrics.names": "To compute other metrics.",
    "metrics.cutoffs": "If your users see more or fewer places at once.",
    "metrics.gain": "If a high grade is worth much more than a low one: exp2.",
    "engagement.names": "To watch lists without clicks, times to a click or purchases.",
    "windows.windows": "To look at shorter or longer times.",
    "windows.segments": "To see numbers for each surface, country or device.",
    "exposures.enabled": "If exposures, and not lists, say who is in which variant.",
    "experiments.paging": "To decide experiments by another metric.",
    "experiments.margin": "To tolerate a larger or smaller drop.",
    "experiments.named": "If an experiment has other shares or another control.",
    "worker.processes": "If one core does not keep up.",
    "http.host": "To let Prometheus or people reach the port from other machines.",
    "http.password_hash": "To ask for a password. Then also http.username.",
}
"""When to change the settings that people do change."""
