"""The brute-force oracle: computes the expected results of a trace of events slowly, as a whole and by the plainest means.

It shares only the two event types with the product, so both can only agree if both are right. The steps of a task go through
four stages, one module each:

    admission   which events are admitted, and the watermark W, from the supported time of each input (works step by step)
    join        the sessions of the admitted events; their lists, grades and event outcomes
    tallies     groups, panes, windows
    pane_lines  the panes in the form that a replay writes

`expected` runs the stages. `supported_time` has the time of one input. `grades` has the grade rules, `scores` the list metrics,
`values` the inputs and outputs, `users` the distinct users of windows and `experiments` the sums over users.

Not modelled: bytes and malformed events, limits other than `session_events_max` and `items_max`, retention, and sums of squares.
Other tests cover them.

Where the written semantics leave room, these are the choices made:

1. `Idle(inputs)` replaces the set of idle inputs. The set lasts: an input leaves it when anything arrives on it, even a refused
   event. If every input is idle and there is no tick, W stays.
2. After a `Tick`, all inputs are idle.
3. `session_events_max` counts all events of the session, including duplicates and unknown actions. An event within the gap of
   an open session with that many events is refused as `session_full`. It is not admitted, so it neither merges sessions nor
   moves the end of a flushed window. It moves w like any event that decodes.
4. Copies and fragments more than `attribution_ms` after the least ts of their id in the session do not count and are
   `duplicate`, because a final list may not change. For whole copies with other items than the list, see 13. The least ts is over
   whole copies and fragments. A whole copy makes all fragments
   `duplicate`, even if it is too late to count and they form the list. So a duplicate stays one whatever arrives, and
   its counter never decreases.
5. Of events with equal (ts, content), the one on the input first in `Settings.inputs` counts, then the one that came first.
6. `repeated` follows the same order: of matched feedback with one (list, item, action), the least (ts, input) is not counted.
   Every other one is counted on its own input.
7. A fragment without items counts if it is the first of its list. The list may be empty.
8. "Greatest id" compares strings by code point.
9. `unknown_action` and `duplicate` are counted at once, for the sessions as they are then.
10. After a flush W and F are infinite. The windows of both views end with the pane of the newest admitted event, or of the greatest
    time of any input if that is earlier. The time of an input at its end is its supported time. If its queue has its users, it is the
    middle of the queue, and on from there through the users' times without a gap of more than a span. An input without a supported time
    has that of its newest remembered event which no gap of more than `support_far_ms` separates from the middle. Without an admitted
    event, or with W at minus infinity, a window has no end (None) and no groups.
11. Fragments with more than `items_max` items together form no list. Each that counts is `too_many_items`.
12. Feedback without an id finds its list among the lists as events dated at or before it form them. Then the chosen list, as all
    events form it, must show the item and be recent enough. Otherwise a later fragment or whole copy could move such feedback
    between lists that are final. So fragments that form no list, or stop forming one, keep the feedback that finds them. It is
    `orphan`.
13. If a whole copy counts, each further sequence of items in whole copies is `list_id_reused` once: for its least (ts, content). All
    other copies are `duplicate`.
14. A list of fragments has a `place_conflict` if two of its items have the same least position. It is counted once, on the list's input.
"""

from __future__ import annotations

from tests.oracle.expected import expected_result
from tests.oracle.grades import Rule, parse_rules
from tests.oracle.pane_lines import pane_lines
from tests.oracle.scores import metric_values, scale_bits, stored_values
from tests.oracle.values import (
    OUTCOMES_AT_CLOSE,
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
    "OUTCOMES_AT_CLOSE",
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
    "expected_result",
    "metric_values",
    "pane_lines",
    "parse_rules",
    "scale_bits",
    "stored_values",
]
