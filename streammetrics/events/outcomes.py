"""The table of event outcomes: every reason under which events are counted, and the error of a malformed event. Pure.

A reason that is not in the table is shown as a refusal, so that no count is lost. Add new reasons here; `tests/events/test_outcomes.py`
checks that none is missing.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from streammetrics.errors import MalformedEvent

OutcomeKind: TypeAlias = Literal["read", "malformed", "refused", "feedback", "unmatched", "marked", "label"]
"""What an outcome says about its event.

    read        it was read: every event has this outcome
    malformed   its bytes hold no valid event; it counts in no metric
    refused     it is valid, but its time or a limit excludes it; it counts in no metric
    feedback    it is feedback: matched, repeated, or with an unknown action
    unmatched   it is feedback that belongs to no list
    marked      it is used, shares the id of a used list, or is ignored by its reader, and is counted for that reason
    label       it is a list that is used without one of its labels; counted once per label, or per list with folded groups
"""


class Outcome(NamedTuple):
    """One outcome. Its name is a label value, a key of reports, and stored: it is never renamed.

    `series` is its own counter, without `streammetrics_` and `_total`; empty for none. Malformed and refused events are also in
    `dropped`, unmatched ones in `feedback_unmatched`, labels in `labels_dropped`, with the name as the reason. `is_dead_lettered`: each
    such event is written to the dead letters.
    """

    name: str
    kind: OutcomeKind
    series: str = ""
    is_dead_lettered: bool = False


_MALFORMED = (
    "empty",
    "oversized",
    "reader",
    "bad_json",
    "bad_type",
    "missing_field",
    "bad_id",
    "bad_ts",
    "bad_value",
    "bad_position",
    "bad_label",
    "too_many_items",  # fragments that exceed the limit only together are not all dead-lettered
)
_LABELS = (
    "label_empty",
    "label_too_long",
    "label_bad_type",
    "label_bad_text",
    "too_many_experiments",
    "too_many_segments",
    "too_many_variants",
    "too_many_groups",
)
IGNORED: Final = "ignored"
"""The outcome of a record that a reader leaves out."""
OUTCOMES: Final = (
    Outcome("events", "read", "events"),
    *(Outcome(name, "malformed", is_dead_lettered=True) for name in _MALFORMED),
    Outcome("future", "refused", is_dead_lettered=True),
    Outcome("late", "refused", "late", is_dead_lettered=True),
    Outcome("session_full", "refused"),  # a robot's events would fill the dead letters
    Outcome("too_many_exposures", "refused"),  # like those of a full session
    Outcome("too_many_lists", "refused", is_dead_lettered=True),
    Outcome("matched", "feedback", "feedback_matched"),
    Outcome("repeated", "feedback", "feedback_repeated"),
    Outcome("orphan", "unmatched"),
    Outcome("out_of_list", "unmatched"),
    Outcome("too_old", "unmatched"),
    Outcome("unknown_action", "feedback", "feedback_unknown_action"),
    Outcome("duplicate", "marked", "duplicates"),
    Outcome("list_id_reused", "marked", "list_ids_reused"),
    Outcome("place_conflict", "marked", "place_conflicts"),
    Outcome(IGNORED, "marked", "ignored"),
    Outcome("ahead", "marked", "events_ahead"),
    Outcome("exposure", "marked", "exposures"),
    Outcome("list_exposed", "marked", "lists_exposed"),
    Outcome("list_unexposed", "marked", "lists_unexposed"),
    Outcome("key_mismatch", "marked", "key_mismatch"),
    Outcome("experiment_lists_full", "marked", "experiment_lists_full"),
    Outcome("variant_as_text", "marked", "variants_as_text"),
    Outcome("too_many_teams", "marked", "interleaving_too_many_teams"),
    *(Outcome(name, "label") for name in _LABELS),
)
"""All outcomes, in display order."""


def names_of(*kinds: OutcomeKind) -> tuple[str, ...]:
    """Return the names of the outcomes of these kinds, in the order of the table.

    >>> names_of("unmatched")
    ('orphan', 'out_of_list', 'too_old')
    """
    return tuple(outcome.name for outcome in OUTCOMES if outcome.kind in kinds)


MALFORMED: Final = names_of("malformed")
"""Reasons for malformed events."""
UNMATCHED: Final = names_of("unmatched")
"""Reasons for unmatched feedback."""
LABELS: Final = names_of("label")
"""Reasons for labels that were dropped or folded."""
NOT_REFUSED: Final = frozenset(names_of("read", "feedback", "unmatched", "marked", "label"))
"""Counters of used events. All other counters, in the table or not, are reasons for refusal."""


SHOWN_CHARS_MAX = 80
"""Most characters of a rejected value in a message. The dead letter has the whole value."""

NOT_ACCEPTED: Final = (msgspec.MsgspecError, ValueError, RecursionError, MalformedEvent)
"""What a typed parser raises for input that it leaves to its explainer."""

Got: TypeAlias = bytes | str | msgspec.Raw | None


def malformed(reason: str, rule: str, got: Got, advice: str) -> MalformedEvent:
    """Return the error for a broken rule. `got` is None where the value would not help (absent, or too many).

    >>> malformed("bad_id", "user_id must be a string", b"7", "send ids as strings").detail
    'user_id must be a string; got 7; send ids as strings'
    """
    value = "" if got is None else f"; got {excerpt(got)}"
    return MalformedEvent(reason, f"{rule}{value}; {advice}")


def without_traceback(error: MalformedEvent) -> MalformedEvent:
    """Return the error without its traceback, which would keep the whole record in memory."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def printable(value: bytes) -> str:
    """Return a whole value as text for one line. Unprintable characters are replaced.

    >>> printable(b"tea\\x00pot") == "tea\\ufffdpot"
    True
    """
    return "".join(char if char.isprintable() else "\ufffd" for char in value.decode(errors="replace"))


def excerpt(got: bytes | str | msgspec.Raw, chars_max: int = SHOWN_CHARS_MAX) -> str:
    """Return the first characters of a value for one log line. Unprintable characters are replaced."""
    start = got if isinstance(got, str) else bytes(memoryview(got)[: 4 * (chars_max + 1)])
    text = start if isinstance(start, str) else start.decode(errors="replace")
    printable = "".join(char if char.isprintable() else "\ufffd" for char in text[:chars_max])
    return printable + ("…" if len(text) > chars_max else "")
