"""What stored state was made with, and whether it matches the rules in use now."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

OTHER_MEASURES = (
    "set experiments.metrics back; or run all workers once with experiments.enabled = false, which deletes users' totals and keeps "
    "windows, and then with the new metrics; or start a new redis.namespace"
)
"""What to do about stored state that measures users by other metrics."""

SETTINGS: Final = {
    "topics": "kafka.topics",
    "grades": "join.grades",
    "gap": "join.gap_ms",
    "attribution": "join.attribution_ms",
    "session_events": "join.session_events_max",
    "lists_open": "join.lists_open_max",
    "items": "events.items_max",
    "out_of_orderness": "join.out_of_orderness_ms",
    "lateness": "join.lateness_ms",
    "future": "join.future_ms",
    "support": "join.support_jump_ms, support_users and support_far_ms",
    "pane": "windows.pane_ms",
    "segments": "windows.segments",
    "events": "events",
    "spec": "metrics (gain, discount, ideal and the other rules)",
    "metrics": "metrics.names and metrics.cutoffs",
    "experiments": "experiments.metrics",
}
"""The settings by the names of rules in a signature. Rules without one are named as they are."""
_RULE: Final = re.compile(r"(\w+)(?:\[(.*?)\](?= |$)|=(\S*))")

Fit: TypeAlias = Literal["same", "switched", "measures", "other"]


class Signature(NamedTuple):
    """Every rule that changes numbers: one line for windows, and the names of users' measures in experiments (None: not counted).

    >>> print(Signature("gap=5", ("mrr@10", "ndcg@10")), "|", Signature("gap=5", None))
    gap=5 experiments[mrr@10,ndcg@10] | gap=5
    """

    rules: str
    measures: tuple[str, ...] | None

    def __str__(self) -> str:
        return self.rules if self.measures is None else f"{self.rules} experiments[{','.join(self.measures)}]"


def fit_of(stored: Signature, now: Signature) -> Fit:
    """Compare the signature of stored state with the current one.

    "same": equal. "switched": experiments were switched on or off. "measures": experiments measure other metrics. "other": the rules of
    windows differ. Only "other" concerns windows.

    >>> none, mrr = Signature("gap=5", None), Signature("gap=5", ("mrr@10",))
    >>> fit_of(none, mrr), fit_of(mrr, none), fit_of(mrr, Signature("gap=5", ("mrr@5",)))
    ('switched', 'switched', 'measures')
    >>> fit_of(mrr, Signature("gap=6", ("mrr@10",))), fit_of(mrr, mrr)
    ('other', 'same')
    """
    if stored == now:
        return "same"
    if stored.rules != now.rules:
        return "other"
    return "switched" if None in (stored.measures, now.measures) else "measures"


def differing(stored: str, now: str) -> str:
    """Return a line for each setting that two lines of rules do not share: its name, and of its items those that only one line has.

    >>> print(differing("grades[click=1, skip=0] gap=5 pane=9", "grades[click=2, skip=0] gap=5 pane=8 segments[app]"))
    join.grades: stored click=1; now click=2
    windows.pane_ms: stored 9; now 8
    windows.segments: now app
    """
    ours, theirs = _rules(stored), _rules(now)
    lines = []
    for name in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(name, []), theirs.get(name, [])
        if one != other:
            before, after = [item for item in one if item not in other], [item for item in other if item not in one]
            if not (before or after):  # only the order differs
                before, after = one, other
            sides = [f"{when} {', '.join(items)}" for when, items in (("stored", before), ("now", after)) if items]
            lines.append(f"{SETTINGS.get(name, name)}: {'; '.join(sides)}")
    return "\n".join(lines)


def _rules(line: str) -> dict[str, list[str]]:
    """Split a line into the items of each rule: at the blanks outside of brackets, then at blanks and commas.

    >>> _rules("grades[watch>=30=2, skip=0] gap=5 segments[]")
    {'grades': ['watch>=30=2', 'skip=0'], 'gap': ['5'], 'segments': []}
    """
    rules: dict[str, list[str]] = {}
    for name, listed, value in _RULE.findall(line):
        rules[name] = [item for item in re.split(r"[, ]+", listed) if item] if not value else [value]
    return rules
