"""What a sample of records holds, for `decode`: lists, feedback and how much of it meets a list, refused and ignored records. Pure.

`doctor` names and counts the kinds of events in the same way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from typing import Final

from streammetrics.errors import MalformedEvent
from streammetrics.events import Event, Exposure, Feedback, Impression
from streammetrics.events.outcomes import IGNORED, excerpt
from streammetrics.reports.samples import SampleJoin
from streammetrics.words.numbers import counted

PLACES_SHOWN_MAX = 5
NAMES_SHOWN_MAX = 10
NAME_WIDTH = 10
KIND_NAMES: Final[Mapping[type[Event], str]] = {Impression: "lists", Feedback: "feedback", Exposure: "exposures"}


def counted_kind(count: int, kind: str) -> str:
    """Return a count with a kind, or with another outcome of a record.

    >>> counted_kind(1, "lists"), counted_kind(1_200, "exposures"), counted_kind(1, "feedback"), counted_kind(1, "refused")
    ('1 list', '1,200 exposures', '1 feedback', '1 refused')
    """
    return f"{count:,} {kind.removesuffix('s') if count == 1 else kind}"


class SampleSummary:
    """Counts the events of a sample.

    >>> summary = SampleSummary()
    >>> summary.add("record 1", [Impression("r", "u", 5, ("a", "b"), (("ranker", "new"),))])
    >>> summary.add("record 2", [Feedback("u", 6, "b", "skip"), Feedback("u", 6, "b", "click"), Feedback("u", 7, "c", "click")])
    >>> summary.add("record 3", [MalformedEvent("bad_ts", "no time"), MalformedEvent("ignored", "page")])
    >>> print(*summary.lines(), sep="\\n")
    lists     1, with 2 items
              ranker: new 1
    feedback  click 2: 0 with the id of a list, 2 without; 1 meets a list of the sample
              skip 1: 0 with the id of a list, 1 without; 1 meets a list of the sample
    refused   bad_ts 1: record 3
    ignored   page 1
    """

    def __init__(self) -> None:
        self.lists: list[Impression] = []
        self.feedback: list[Feedback] = []
        self.exposures: Counter[tuple[str, str]] = Counter()
        self.refused: dict[str, list[str]] = defaultdict(list)
        self.ignored: Counter[str] = Counter()

    def add(self, place: str, events: Iterable[Event | MalformedEvent]) -> None:
        """Count the events of the record at a place."""
        for event in events:
            if isinstance(event, Impression):
                self.lists.append(event)
            elif isinstance(event, Feedback):
                self.feedback.append(event)
            elif isinstance(event, Exposure):
                self.exposures[event.experiment, event.variant] += 1
            elif event.reason == IGNORED:
                self.ignored[event.detail] += 1
            else:
                self.refused[event.reason].append(place)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the summary."""
        yield from _titled("lists", self._of_lists())
        yield from _titled("exposures", _of_labels(self.exposures.elements(), self.exposures.total()))
        yield from _titled("feedback", self._of_feedback())
        yield from _titled("refused", [f"{reason} {len(places)}: {_places(places)}" for reason, places in self.refused.items()])
        yield from _titled("ignored", [_counts(self.ignored)] if self.ignored else [])

    def _of_lists(self) -> Iterator[str]:
        if not self.lists:
            return
        sizes = [sum(map(bool, impression.items)) for impression in self.lists]
        least, most = min(sizes), max(sizes)
        items = counted(most, "item") if least == most else f"{least:,} to {most:,} items, {median(sizes):g} in the middle"
        parts = sum(impression.positions is not None for impression in self.lists)
        yield f"{len(self.lists):,}, with {items}" + (f"; {parts:,} of them are parts of lists, with positions" if parts else "")
        yield from _of_labels((label for impression in self.lists for label in impression.experiments), len(self.lists))
        yield from _of_labels((label for impression in self.lists for label in impression.segments), len(self.lists))

    def _of_feedback(self) -> Iterator[str]:
        joined = SampleJoin(self.lists)
        for action, of_action in sorted(_grouped(self.feedback).items(), key=lambda group: -len(group[1])):
            named = sum(feedback.impression_id is not None for feedback in of_action)
            met = sum(joined.outcome(feedback)[0] == "matched" for feedback in of_action)
            of_lists = f"{named:,} with the id of a list, {len(of_action) - named:,} without"
            yield f"{excerpt(action)} {len(of_action):,}: {of_lists}; {met:,} {'meets' if met == 1 else 'meet'} a list of the sample"


def _grouped(feedback: Iterable[Feedback]) -> dict[str, list[Feedback]]:
    groups: dict[str, list[Feedback]] = defaultdict(list)
    for reaction in feedback:
        groups[reaction.action].append(reaction)
    return groups


def _of_labels(labels: Iterable[tuple[str, str]], events: int) -> Iterator[str]:
    """Yield a line for each name of a label, with its values and how many events have none."""
    by_name: dict[str, Counter[str]] = defaultdict(Counter)
    for name, value in labels:
        by_name[name][value] += 1
    for name, values in sorted(by_name.items()):
        absent = events - values.total()
        yield f"{excerpt(name)}: {_counts(values)}" + (f"; {absent:,} without" if absent > 0 else "")


def _counts(counts: Counter[str]) -> str:
    examples = [f"{excerpt(name)} {count:,}" for name, count in counts.most_common(NAMES_SHOWN_MAX)]
    others = sum(count for _, count in counts.most_common()[NAMES_SHOWN_MAX:])
    return ", ".join([*examples, *([f"others {others:,}"] if others else [])])


def _places(places: list[str]) -> str:
    more = len(places) - PLACES_SHOWN_MAX
    return ", ".join(places[:PLACES_SHOWN_MAX]) + (f" and {more:,} more" if more > 0 else "")


def _titled(title: str, lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"{title if number == 0 else '':<{NAME_WIDTH}}{line}"
