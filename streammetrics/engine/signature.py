"""What stored state was made with, and whether it matches the rules in use now."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

OTHER_MEASURES = (
    "set experiments.metrics back; or run all workers once with experiments.enabled = false, which deletes users' totals and keeps "
    "windows, and then with the new metrics; or start a new redis.namespace"
)
"""What to do about stored state that measures users by other metrics."""

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


def differing(stored: str, now: str) -> tuple[str, str]:
    """Return the rules that appear in only one of two lines: first those of `stored`, then those of `now`.

    >>> differing("grades[click=1, skip=0] gap=5 pane=9", "grades[click=2, skip=0] gap=5 pane=9 segments[app]")
    ('grades[click=1, skip=0]', 'grades[click=2, skip=0] segments[app]')
    >>> differing("gap=5 pane=9", "gap=5")
    ('pane=9', 'nothing')
    """
    ours, theirs = _rules(stored), _rules(now)
    one, other = ([rule for rule in these if rule not in those] for these, those in ((ours, theirs), (theirs, ours)))
    return " ".join(one) or "nothing", " ".join(other) or "nothing"


def _rules(line: str) -> list[str]:
    """Split a line into rules at the blanks outside of brackets."""
    rules: list[str] = []
    depth = 0
    for word in line.split(" "):
        if depth > 0:
            rules[-1] += f" {word}"
        else:
            rules.append(word)
        depth += word.count("[") - word.count("]")
    return rules
