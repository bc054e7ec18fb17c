"""What may become of an event, in one table: every reason under which events are counted. Pure data.

Whoever counts writes the name; whoever shows counters asks here what a name means. A reason that is not in the table is shown as
one of refusal, so that nothing is lost. A new one needs a line here, and `tests/events/test_outcomes.py` holds that it has one.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

OutcomeKind: TypeAlias = Literal["read", "malformed", "refused", "feedback", "unmatched", "marked"]
"""What a fate says of its event.

    read        it came: every event has this one
    malformed   its bytes hold no event: it is in no number
    refused     it is a good event, and in no number all the same: its time is amiss, or a limit is reached
    feedback    it is feedback, and what its list or the rules of grades made of it
    unmatched   it is feedback that counts for no list
    marked      it is used, or repeats one that is, and something about it is worth a count
"""


class Outcome(NamedTuple):
    """One reason. It becomes a label value and a key of reports, and is stored with the state: it is never renamed.

    `series`: the counter of its own, without `streammetrics_` and `_total`; empty for none. Besides it, what is malformed or refused is
    in `dropped` and what is unmatched in `feedback_unmatched`, under its name as the reason. `is_dead_lettered`: each such event is
    kept to be read back.
    """

    name: str
    kind: OutcomeKind
    series: str = ""
    is_dead_lettered: bool = False


_MALFORMED = (
    "empty",
    "oversized",
    "bad_json",
    "bad_type",
    "missing_field",
    "bad_id",
    "bad_ts",
    "bad_value",
    "bad_position",
    "bad_label",
    "too_many_items",  # of fragments that are only too many together, not all can be read back
    "too_many_experiments",
    "too_many_segments",
)
OUTCOMES: Final = (
    Outcome("events", "read", "events"),
    *(Outcome(name, "malformed", is_dead_lettered=True) for name in _MALFORMED),
    Outcome("future", "refused", is_dead_lettered=True),
    Outcome("late", "refused", "late", is_dead_lettered=True),
    Outcome("session_full", "refused"),  # the events of a robot would fill the dead letters
    Outcome("too_many_groups", "refused", is_dead_lettered=True),
    Outcome("too_many_lists", "refused", is_dead_lettered=True),
    Outcome("too_many_variants", "refused", is_dead_lettered=True),
    Outcome("matched", "feedback", "feedback_matched"),
    Outcome("repeated", "feedback", "feedback_repeated"),
    Outcome("orphan", "unmatched"),
    Outcome("out_of_list", "unmatched"),
    Outcome("too_old", "unmatched"),
    Outcome("unknown_action", "feedback", "feedback_unknown_action"),
    Outcome("duplicate", "marked", "duplicates"),
    Outcome("key_mismatch", "marked", "key_mismatch"),
    Outcome("experiment_lists_full", "marked", "experiment_lists_full"),
    Outcome("too_many_teams", "marked", "interleaving_too_many_teams"),
)
"""Every fate there is, in the order in which people are told of them."""


def names_of(*kinds: OutcomeKind) -> tuple[str, ...]:
    """The fates of these kinds by name, in the order of the table.

    >>> names_of("unmatched")
    ('orphan', 'out_of_list', 'too_old')
    """
    return tuple(fate.name for fate in OUTCOMES if fate.kind in kinds)


MALFORMED: Final = names_of("malformed")
"""Why bytes may hold no event."""
UNMATCHED: Final = names_of("unmatched")
"""Why a feedback may count for no list."""
NOT_REFUSED: Final = frozenset(names_of("read", "feedback", "unmatched", "marked"))
"""The counters of what was used. Every other one, in the table or not, is a reason why events were refused."""
