"""The topic of a file: its name begins with the topic's name. Topics may have dots."""

from __future__ import annotations

from collections.abc import Collection


def topic_of(name: str, topics: Collection[str]) -> str | None:
    """Return the longest of some topics that a topic or a file has; None if it has none.

    >>> [topic_of(name, ["web", "web.searches"]) for name in ("web.searches", "logs/web.searches.2026-week46.parquet", "web.csv", "shop")]
    ['web.searches', 'web.searches', 'web', None]
    """
    file = name.rpartition("/")[2]
    return max((topic for topic in topics if topic in (name, file) or file.startswith(f"{topic}.")), key=len, default=None)
