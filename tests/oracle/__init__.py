"""The brute-force oracle: what a trace of events must come to, computed slowly, whole and by the plainest means.

It shares nothing with the product but the two event values, so that the two can only agree by both being right. A task's
steps go through four stages, one module each:

    admission   which events are admitted, and the watermark W (the only stage that goes step by step)
    join        the sessions of the admitted events; per session its lists, their grades and every event's fate
    tallies     groups, panes, windows
    lines       the panes as a replay writes them

`grades` holds the rules that turn an action into a grade, `scores` the integers of the list metrics, `values` what goes in and out.

Not modelled, because it needs no judge or is judged elsewhere: bytes and malformed events, all limits but
`session_events_max` and `items_max`, retention, experiment moments, sums of squares.

Where the written semantics leave room, these are the choices made:

1. `Idle(inputs)` *replaces* the set of idle inputs, and the set lasts: an input leaves it when anything arrives on it, even
   an event that is refused. With every input idle and no tick, W stays.
2. A `Tick` says that every input is caught up and silent, so all inputs are idle after it.
3. `session_events_max` counts every event of the session: duplicates and unknown actions too. An event within the gap of an
   open session that holds that many is refused as `session_full`; it is not admitted, so it neither bridges nor moves the
   end of a flushed window. It moves w like any event that decodes.
4. ImpressionCopies and fragments of an impression_id dated more than `attribution_ms` after the least ts of that id's events in the
   session take no part and are `duplicate` (a final list may change no more). The least ts is over whole copies and
   fragments together. A whole copy makes all fragments `duplicate` even where it comes too late to take part and they make
   the list: so a duplicate stays one whatever arrives, and its counter never steps back.
5. Of events equal in (ts, content) the one on the input first in `Settings.inputs` counts, then the one that came first.
6. `repeated` goes to inputs likewise: of the matched feedback with one (list, item, action), the least (ts, input) is not
   counted, every other one is, on its own input.
7. A fragment that shows nothing counts if it is the first of its list; the list may be empty.
8. "Greatest id" compares strings by code point.
9. `unknown_action` and `duplicate` move at once; so `duplicate` is what the sessions as they stand would count.
10. After a flush W and F are infinite, and the windows of both views end with the pane of the newest admitted event; without
    any admitted event, and with W at minus infinity, a window has no end (None) and no groups.
11. Fragments that together hold more than `items_max` items are no list: each that counts is `too_many_items`.
12. Feedback without an id finds its list among the lists as the events dated at or before it make them; whether that list, as
    all events make it, shows the item and is recent enough is asked afterwards. Otherwise a fragment or whole copy that
    comes later could take such feedback from an older list that is final, or give it back. So fragments that are no list, or
    become none, keep the feedback that finds them: it is `orphan`.
"""

from __future__ import annotations

from tests.oracle.grades import Rule, parse_rules
from tests.oracle.judge import judge
from tests.oracle.lines import panes_lines
from tests.oracle.scores import metric_values, scale_bits, stored_values
from tests.oracle.values import (
    FATES_AT_CLOSE,
    REASONS,
    Arrival,
    Group,
    Idle,
    Result,
    Session,
    Settings,
    ShownList,
    Step,
    Tally,
    TaskResult,
    Tick,
    Window,
)

__all__ = [
    "FATES_AT_CLOSE",
    "REASONS",
    "Arrival",
    "Group",
    "Idle",
    "Result",
    "Rule",
    "Session",
    "Settings",
    "ShownList",
    "Step",
    "Tally",
    "TaskResult",
    "Tick",
    "Window",
    "judge",
    "metric_values",
    "panes_lines",
    "parse_rules",
    "scale_bits",
    "stored_values",
]
