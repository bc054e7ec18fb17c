"""Gives files a topic that their names do not tell, and finds readers for topics that are not read."""

from __future__ import annotations

from collections.abc import Iterator

from streammetrics.config import Settings
from streammetrics.errors import ConfigError, Problem
from streammetrics.events.topic_names import topic_of


def with_topic(settings: Settings, topic: str) -> Settings:
    """Return the settings with which all files have a topic. Raises ConfigError if no setting names the topic."""
    reader = settings.events.reader
    named = {} if isinstance(reader, str) else reader
    name = topic_of(topic, named)
    if name is None:
        names = ", ".join(sorted(named)) or "there is none"
        raise ConfigError([Problem("--topic", topic, f"events.reader names no reader for this topic ({names})")])
    return settings.model_copy(update={"events": settings.events.model_copy(update={"reader": named[name]})})


def unread_topics(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each reader of a topic that is not in kafka.topics."""
    read = settings.kafka.topics
    for name in () if isinstance(settings.events.reader, str) else settings.events.reader:
        if not any(topic_of(topic, [name]) for topic in read):
            yield f"events.reader names the topic {name}, which `run` does not read: kafka.topics is {', '.join(read)}"
