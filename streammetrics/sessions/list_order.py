"""Where each list stands in its session: which is the first, and which are followed by another list soon.

Lists are in order of (begin, id). A list begins with the earliest event of its id, even if a later copy replaces it: what comes before
or soon after a final list can then no longer change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TypeAlias

from streammetrics.sessions.engagement import Engagement
from streammetrics.sessions.fragments import Fragments
from streammetrics.sessions.shown_list import ShownList

Begin: TypeAlias = tuple[int, str]
"""Time (ms) of the earliest event of an id, and the id."""


def begins(lists: Mapping[str, ShownList], fragmented: Mapping[str, Fragments]) -> list[Begin]:
    """Return when the lists of a session begin, in order. Fragments with too many items begin, too, though they form no list."""
    times = {identity: shown.ts for identity, shown in lists.items()}
    for identity, parts in fragmented.items():
        first = parts.fragments[0].ts
        times[identity] = min(times.get(identity, first), first)
    return sorted((ts, identity) for identity, ts in times.items())


def linked(lists: Mapping[str, ShownList], ordered: list[Begin], reformulation_ms: int) -> Iterator[tuple[ShownList, Engagement]]:
    """Return each list with its engagement at its place in the session. `ordered` are the begins of its lists."""
    soon = {identity for (begin, identity), (later, _) in pairwise(ordered) if later - begin <= reformulation_ms}
    first = next((identity for _, identity in ordered if identity in lists), None)
    for identity, shown in lists.items():
        yield shown, shown.engagement.linked(identity == first, identity in soon)
