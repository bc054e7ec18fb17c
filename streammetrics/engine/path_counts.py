"""Counts in how many records each optional path of a mapping has a value, and since when it has none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from streammetrics.events.event_time import NEVER
from streammetrics.events.model import PathsFound, WatchedPath

ROWS_MAX: Final = 1_000
"""Paths kept by a task. Beyond, the one that was last seen longest ago goes: mappings may change for ever."""

_Key: TypeAlias = tuple[int, WatchedPath]
_Row: TypeAlias = tuple[str, int, int, int, int]
"""The nearest path of records, the records, those with a value, those since the last value, and the time of the last value."""
_NONE: Final[_Row] = "", 0, 0, 0, NEVER


StoredPath: TypeAlias = tuple[int, WatchedPath, _Row]
"""The topic index, the path, and its row."""


class PathCounts:
    """Records by topic and path. Records of one mapping that follow each other with the same paths are counted together."""

    __slots__ = ("_rows", "_runs")

    def __init__(self) -> None:
        self._rows: dict[_Key, _Row] = {}
        self._runs: dict[tuple[int, str], tuple[PathsFound, int, int]] = {}

    def restore(self, stored: Iterable[StoredPath]) -> None:
        """Continue from the last commit."""
        self._runs = {}
        self._rows = {(topic, path): row for topic, path, row in stored}

    def stored(self) -> list[StoredPath]:
        """Return what the next commit writes."""
        for (topic, _), run in self._runs.items():
            self._take(topic, *run)
        self._runs = {}
        return [(topic, path, row) for (topic, path), row in sorted(self._rows.items())]

    def add(self, topic: int, note: PathsFound, at_ms: int) -> None:
        """Count a record of a topic at a time."""
        key = topic, note.mapping
        run = self._runs.get(key)
        if run is None:
            self._runs[key] = note, 1, at_ms
            return
        before, records, last_ms = run
        if before is note:
            self._runs[key] = note, records + 1, max(last_ms, at_ms)
        else:
            self._take(topic, *run)
            self._runs[key] = note, 1, at_ms

    def _take(self, topic: int, note: PathsFound, count: int, at_ms: int) -> None:
        for path in note.found:
            near, records, found, _, last_ms = self._rows.pop((topic, path), _NONE)
            self._rows[topic, path] = near, records + count, found + count, 0, max(last_ms, at_ms)
        for path, nearest in note.absent:
            near, records, found, since, last_ms = self._rows.pop((topic, path), _NONE)
            self._rows[topic, path] = nearest or near, records + count, found, since + count, last_ms
        while len(self._rows) > ROWS_MAX:
            del self._rows[next(iter(self._rows))]
