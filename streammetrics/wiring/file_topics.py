"""Gives files a topic that their names do not tell, and finds mappings for topics that are not read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streammetrics.config import Settings
from streammetrics.errors import ConfigError, Problem
from streammetrics.events.mappings.rules import parse_mappings
from streammetrics.events.topic_names import topic_of


def with_topic(settings: Settings, files: Sequence[str], topic: str) -> Settings:
    """Return the settings with which files have a topic. Raises ConfigError if no setting names the topic."""
    events = settings.events
    known = {name for rule in parse_mappings(events.mappings) for name in rule.topics} | events.topics.keys()
    name = topic_of(topic, known)
    if name is None:
        named = ", ".join(sorted(known)) or "there is none"
        raise ConfigError([Problem("--topic", topic, f"no mapping and no [events.topics] has this topic ({named})")])
    mappings = tuple(
        {**table, "topics": (*(each for each in table["topics"] if each not in files), *(files if name in table["topics"] else ()))}
        if table.get("topics")
        else table
        for table in events.mappings
    )
    topics = {each: own for each, own in events.topics.items() if each not in files}
    if name in topics:
        topics |= dict.fromkeys(files, topics[name])
    return settings.model_copy(update={"events": events.model_copy(update={"mappings": mappings, "topics": topics})})


def unread_topics(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each mapping and each [events.topics] with a topic that is not in kafka.topics."""
    read = settings.kafka.topics
    for rule in parse_mappings(settings.events.mappings):
        if missing := [name for name in rule.topics if topic_of(name, read) is None and not any(topic_of(each, [name]) for each in read)]:
            yield f"{rule.name} is for {', '.join(missing)}, which `run` does not read: kafka.topics is {', '.join(read)}"
    for name in settings.events.topics:
        if not any(topic_of(each, [name]) for each in read):
            yield f"[events.topics.{name}] is for a topic that `run` does not read: kafka.topics is {', '.join(read)}"
