"""Optional paths of mappings that have no value in any record, or in none since a time: a name that is misspelt or was changed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from streammetrics.events.event_time import NEVER
from streammetrics.events.model import PathsFound, WatchedPath
from streammetrics.reports.text import isolated
from streammetrics.reports.time_text import second_text

RECORDS_MIN: Final = 100
"""Records that a stream needs for a sentence about a path. A file that has ended needs one."""
EXPECTED_MIN: Final = 20
"""A path had a value before, and by its share so many of the records since then should have one."""
EXPECTED_OF_TASK_MIN: Final = 3
"""The same for each task: a sender that was not changed writes to all partitions."""

TaskRow: TypeAlias = tuple[str, WatchedPath, tuple[str, int, int, int, int]]
"""The topic, the path, and the counts of one task (see `engine.path_counts`)."""


@dataclass(frozen=True, slots=True)
class PathCount:
    """One optional path of a mapping (see `WatchedPath`) and one topic. `nearest` is a path that records have; empty: unknown.

    `records` are all records of the mapping, and `found` those with a value. `missing_ms`: the path has had no value since this time,
    and was expected to; None otherwise.
    """

    topic: str
    mapping: str
    field: str
    path: str
    format: str
    nearest: str = ""
    records: int = 0
    found: int = 0
    missing_ms: int | None = None

    @property
    def watched(self) -> WatchedPath:
        return WatchedPath(self.mapping, self.field, self.path, self.format)

    @property
    def problem(self) -> str:
        """Return what a path is that finds nothing, for a message that names its topic."""
        return f"{self._name} has no value in {'the only record' if self.records == 1 else f'any of {self.records:,} records'}"

    @property
    def _name(self) -> str:
        of_format = f" of the format {isolated(self.format)}" if self.format else ""
        return f"{isolated(self.mapping)}{of_format}: {isolated(self.field)} ({isolated(self.path)})"

    @property
    def advice(self) -> str:
        if self.format == "ubi":
            near = f"did you mean {isolated(self.nearest)}? If not, " if self.nearest else ""
            return f"{near}correct the setting that names it: an events.ubi_ setting, or a segment"
        own = f"copy the mappings of {self.format} into your configuration, and " if self.format else ""
        if self.nearest:
            return f"did you mean {isolated(self.nearest)}?" + (f" Then {own}correct the path" if own else "")
        return f"{own}correct the path, or take it out of the mapping"

    def sentence(self, *, ended: bool) -> str | None:
        """Return a sentence if the path finds nothing.

        >>> path = WatchedPath("mapping 1", "experiments.ranker", "ab.rankr")
        >>> print(PathCount("shop", *path, nearest="ab.ranker", records=200).sentence(ended=True))
        mapping 1: experiments.ranker (ab.rankr) has no value in any of 200 records of shop; did you mean ab.ranker?
        """
        if self.found == 0 and self.records >= (1 if ended else RECORDS_MIN):
            return f"{self.problem} of {isolated(self.topic)}; {self.advice}"
        if self.missing_ms is not None:
            since = f"has had no value since {second_text(self.missing_ms)} in the records of {isolated(self.topic)}"
            return f"{self._name} {since}; {self.advice}"
        return None


def merge_paths(rows: Iterable[TaskRow], known: Collection[WatchedPath]) -> tuple[PathCount, ...]:
    """Merge the counts of all tasks. Paths that the settings no longer have are left out."""
    tasks: dict[tuple[str, WatchedPath], list[tuple[str, int, int, int, int]]] = {}
    for topic, path, row in rows:
        if path in known:
            tasks.setdefault((topic, path), []).append(row)
    return tuple(_merged(topic, path, own) for (topic, path), own in sorted(tasks.items()))


def _merged(topic: str, path: WatchedPath, rows: list[tuple[str, int, int, int, int]]) -> PathCount:
    records, found, since = sum(row[1] for row in rows), sum(row[2] for row in rows), sum(row[3] for row in rows)
    nearest = next((row[0] for row in rows if row[0]), "")
    share = found / (records - since) if records > since else 0.0
    busy = [row for row in rows if row[1] >= RECORDS_MIN]
    is_missing = since * share >= EXPECTED_MIN and all(row[3] * share >= EXPECTED_OF_TASK_MIN for row in busy)
    last_ms = max(row[4] for row in rows)
    return PathCount(topic, *path, nearest, records, found, last_ms if is_missing and last_ms > NEVER else None)


def counted_paths(topic: str, notes: Iterable[PathsFound]) -> tuple[PathCount, ...]:
    """Return the counts of some records of a topic."""
    found: dict[WatchedPath, PathCount] = {}
    for note in notes:
        for path in note.found:
            own = found.get(path, PathCount(topic, *path))
            found[path] = replace(own, records=own.records + 1, found=own.found + 1)
        for path, nearest in note.absent:
            own = found.get(path, PathCount(topic, *path))
            found[path] = replace(own, records=own.records + 1, nearest=nearest or own.nearest)
    return tuple(found.values())


def path_sentences(paths: Iterable[PathCount], *, ended: bool) -> Iterator[str]:
    """Yield a sentence for each path that finds nothing."""
    for path in paths:
        if (sentence := path.sentence(ended=ended)) is not None:
            yield sentence
