"""The unknown names of a report: actions without a grade and event types, with counts and the name that is probably meant. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streammetrics.events.unknown_names import nearest
from streammetrics.words.names import isolated

SHOWN_MAX: Final = 20
"""Names of each kind in a report, most frequent first. The rest are counted together."""


@dataclass(frozen=True, slots=True)
class UnknownName:
    """One unknown name. `name` is None for all further names together. `meant` is the nearest known name, if one is close."""

    kind: str
    name: str | None
    events: int
    meant: str | None = None

    def __str__(self) -> str:
        """Return words for a terminal or a log.

        >>> print(UnknownName("action", "CLICK", 1_200, "click"), UnknownName("action", None, 3), sep="; ")
        CLICK 1,200 (did you mean click?); others 3
        """
        printed = "others" if self.name is None else isolated(self.name) or '""'
        return f"{printed} {self.events:,}" + (f" (did you mean {self.meant}?)" if self.meant else "")


def merge_names(stored: Iterable[tuple[str, str, int]], known_names: Mapping[str, Sequence[str]]) -> tuple[UnknownName, ...]:
    """Merge the counts of all tasks, (kind, name or empty, count). `known` has the known names by kind."""
    counts: dict[str, Counter[str]] = {}
    for kind, name, count in stored:
        counts.setdefault(kind, Counter())[name] += count
    return tuple(name for kind in sorted(counts) for name in _of_kind(kind, counts[kind], known_names.get(kind, ())))


def _of_kind(kind: str, counts: Counter[str], names: Sequence[str]) -> Iterator[UnknownName]:
    others = counts.pop("", 0)
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    for name, count in ranked[:SHOWN_MAX]:
        yield UnknownName(kind, name, count, nearest(name, names))
    others += sum(count for _, count in ranked[SHOWN_MAX:])
    if others:
        yield UnknownName(kind, None, others)
