"""The counts for the examination curve of one task: by period, kept until two more have begun. Pure.

Counts that other rules made are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from streammetrics.errors import StateError
from streammetrics.events.event_time import NEVER
from streammetrics.sessions.state import ShownList
from streammetrics.state.codec import VERSION, check_version
from streammetrics.state.msgpack import pack
from streammetrics.windows.examination import ExaminationRules, ExaminationSample, ItemCounts, ItemHashes, VariantGrades

EXAMINATION: Final = "examination"
"""The table of the counts, by the number of their period."""
PERIODS_BEFORE: Final = 2
"""Periods that are kept before the one that lists are enrolled in. A report needs one; a task may be ahead of another by one more."""

_StoredVariant = tuple[str, str, int, list[tuple[int, float, int]]]
_decode = msgspec.msgpack.Decoder(tuple[int, str, int, int, bytes, str, bytes, str, bytes, list[_StoredVariant]]).decode


def encode_sample(sample: ExaminationSample, rules: ExaminationRules) -> bytes:
    """Return the stored form of a sample. Integers take as many bytes as the greatest of them needs."""
    counts = sample.counts()
    variants = [
        (*arm, each.lists, sorted((place, float(grade), count) for (place, grade), count in each.by_place.items()))
        for arm, each in sorted(sample.variants.items())
    ]
    columns = [part for column in (counts.shows, counts.clicks) for part in _packed(column)]
    return pack((VERSION, rules.describe(), sample.limit, len(counts.entries), counts.entries.astype("<i8").tobytes(), *columns, variants))


def _packed(column: Any) -> tuple[str, bytes]:
    narrow = np.min_scalar_type(int(column.max(initial=0))).newbyteorder("<")
    return narrow.str, column.astype(narrow).tobytes()


def decode_counts(stored: bytes) -> tuple[str, ItemCounts, dict[tuple[str, str], VariantGrades]]:
    """Return the rules, the counts and the variants of a stored sample. Raises StateError for bytes of another form or version."""
    try:
        version, rules, limit, size, entries, shows_type, shows, clicks_type, clicks, variants = _decode(stored)
        check_version(version, "counts of the examination curve")
        columns = [
            np.frombuffer(data, dtype=kind).astype(np.int64)
            for kind, data in (("<i8", entries), (shows_type, shows), (clicks_type, clicks))
        ]
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        raise StateError(
            f"counts of the examination curve in the store cannot be read ({error})",
            "start a new redis.namespace and replay from the topics",
        ) from error
    assert all(len(column) == size for column in columns)
    grades = {
        (experiment, variant): VariantGrades(lists, {(place, grade): count for place, grade, count in by_place})
        for experiment, variant, lists, by_place in variants
    }
    return rules, ItemCounts(columns[0], columns[1], columns[2], limit), grades


class ExaminationChanges(NamedTuple):
    """What a commit writes: the periods that changed, and those to delete."""

    changed: dict[str, bytes]
    gone: list[str]


class ExaminationStore:
    """The samples of a task by period, and which of them a commit writes and deletes. Without rules, stored samples are deleted."""

    __slots__ = ("_changed", "_gone", "_hashes", "_rules", "samples")

    def __init__(self, rules: ExaminationRules | None) -> None:
        self._rules = rules
        self._hashes = ItemHashes(() if rules is None else rules.context)
        self.samples: dict[int, ExaminationSample] = {}
        self._changed: set[int] = set()
        self._gone: set[str] = set()

    def restore(self, stored: Mapping[str, bytes]) -> None:
        """Continue from the last commit. Samples of other rules are deleted by the next one."""
        for name, value in stored.items():
            made_by, counts, variants = decode_counts(value)
            if self._rules is None or made_by != self._rules.describe():
                self._gone.add(name)
            else:
                self.samples[int(name)] = ExaminationSample.restored(counts, variants)

    def restart(self, stored: Iterable[str]) -> None:
        """Delete all samples: experiments were switched on or off."""
        self._gone.update(stored)

    def add(self, lists: Iterable[ShownList], counted_from: int) -> None:
        """Count final lists that are in an experiment, each once, except those before `counted_from` (ms)."""
        rules = self._rules
        if rules is None:
            return
        for shown in lists:
            if shown.experiments and shown.ts >= counted_from:
                period = shown.ts // rules.period_ms
                self.samples.setdefault(period, ExaminationSample()).add(shown, rules, self._hashes)
                self._changed.add(period)

    def changes(self, entered_ms: int) -> ExaminationChanges:
        """Return what to commit. Samples of other rules, and of periods that are over, are deleted.

        `entered_ms`: all lists before this time are counted, and there are events from it on; NEVER deletes no period.
        """
        rules = self._rules
        if rules is not None and entered_ms != NEVER:
            first = entered_ms // rules.period_ms - PERIODS_BEFORE
            for period in [period for period in self.samples if period < first]:
                del self.samples[period]
                self._changed.discard(period)
                self._gone.add(str(period))
        changed = {} if rules is None else {str(each): encode_sample(self.samples[each], rules) for each in self._changed}
        gone = sorted(self._gone - changed.keys())
        self._changed, self._gone = set(), set()
        return ExaminationChanges(changed, gone)
