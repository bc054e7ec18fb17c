"""Formats what differs between two reports for a terminal: the answer first, then spans, settings, counters and groups. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from streammetrics.cli.output.tables import UNLABELLED
from streammetrics.cli.output.terminal import FittingTable
from streammetrics.offline.differences.found import ChangedGroup, ChangedNumber, FoundDifferences, SideSpan
from streammetrics.offline.differences.groups import PANES
from streammetrics.reports.text import counted, fit
from streammetrics.reports.time_text import second_text

GROUPS_MAX: Final = 20
NUMBERS_MAX: Final = 4


def difference_lines(found: FoundDifferences, names: tuple[str, str]) -> Iterator[RenderableType]:
    """Yield the lines. `names` are those of the online and the offline report."""
    yield _answer(found)
    yield from _spans(found, names)
    if found.settings:
        yield Text("\nSettings that differ", "bold")
        for each in found.settings:
            yield f"  {fit(each.name)}: online {_value(each.online)}, offline {_value(each.offline)}\n    changes {each.changes}"
    yield from _counters(found)
    if found.groups:
        yield from _groups(found)
    yield Text("\nCompared", "bold")
    for line in found.compared:
        yield f"  {fit(_with_time(line))}"
    for line in found.left_out:
        yield f"  not compared: {fit(line)}"


def _answer(found: FoundDifferences) -> Text:
    if not found.compared:
        return Text.assemble(("NOT COMPARED", "bold red"), "  the reports have no span in common; see the last lines")
    if found.equal:
        settings = f"; {counted(len(found.settings), 'setting')} differ without effect" if found.settings else ""
        return Text.assemble(("EQUAL", "bold green"), f"  all numbers that were compared are equal{settings}")
    unexplained = sum(each.unexplained is not None for each in found.groups)
    words = f"  {counted(len(found.groups), 'group')} with numbers that differ, {unexplained:,} of them not fully explained"
    if not found.groups:
        words = "  the numbers of groups that were compared are equal, but counters or spans differ"
    return Text.assemble(("DIFFERENT", "bold red"), words)


def _spans(found: FoundDifferences, names: tuple[str, str]) -> Iterator[RenderableType]:
    table = FittingTable(("side", "report"), ("first pane", "last pane", "watermark", "final up to", "only here", "their lists"))
    for side, name, span in (("online", names[0], found.online), ("offline", names[1], found.offline)):
        times = _time(span.first_pane_ms), _time(span.last_pane_ms), *_progress(span)
        table.add_row(side, name, *times, f"{span.only_here:,}", f"{span.lists_only_here:,}")
    yield table
    if found.common_from_ms is not None:
        yield f"Panes are compared from {_time(found.common_from_ms)} to {_time(found.common_to_ms)} UTC."


def _progress(span: SideSpan) -> tuple[str, str]:
    return ("ended", "the end") if span.ended else (_time(span.watermark_ms), _time(span.final_ms))


def _counters(found: FoundDifferences) -> Iterator[RenderableType]:
    if not found.counters:
        return
    whole = "" if found.counters_cover_the_span else " (of each whole run, which end at different times)"
    yield Text(f"\nCounters that differ{whole}", "bold")
    table = FittingTable(("counter",), ("online", "offline", "difference"), ("explains",), apart=False)
    for each in found.counters:
        table.add_row(each.reason, f"{each.online:,}", f"{each.offline:,}", f"{each.offline - each.online:+,}", each.explains)
    yield table
    for one in found.inputs:
        yield f"  input {fit(one.name)}: {counted(one.online, 'record')} online, {one.offline:,} offline"


def _groups(found: FoundDifferences) -> Iterator[RenderableType]:
    """Yield the groups of the first place with all they have, and of the others one line each place, and what is unexplained."""
    first = found.groups[0].place
    yield Text("\nNumbers that differ", "bold")
    if first == PANES:
        yield "  Sums of metrics are the integers of the panes."
    full = [group for group in found.groups if group.place == first or group.unexplained is not None]
    for group in full[:GROUPS_MAX]:
        yield from _group(group)
    if len(full) > GROUPS_MAX:
        yield f"  ... and {counted(len(full) - GROUPS_MAX, 'more group')}; --json has all"
    for place in dict.fromkeys(group.place for group in found.groups if group.place != first):
        names = [_name(group) for group in found.groups if group.place == place and group.unexplained is None]
        if names:
            more = f" and {len(names) - GROUPS_MAX:,} more" if len(names) > GROUPS_MAX else ""
            yield f"  also in {fit(_with_time(place))}: {'; '.join(names[:GROUPS_MAX])}{more} (--json has all numbers and causes)"


def _name(group: ChangedGroup) -> str:
    return fit(" / ".join(part for part in (group.experiment, group.variant, group.segments) if part) or UNLABELLED)


def _group(group: ChangedGroup) -> Iterator[RenderableType]:
    yield Text(f"  {_name(group)} in {fit(_with_time(group.place))}")
    for number in group.numbers[:NUMBERS_MAX]:
        yield f"    {fit(number.name)}: {_pair(number)}"
    if len(group.numbers) > NUMBERS_MAX:
        yield f"    ... and {counted(len(group.numbers) - NUMBERS_MAX, 'more number')}"
    if group.panes:
        yield f"    in {counted(len(group.panes), 'pane')}, the first at {_time(group.panes[0])} UTC"
    for cause in group.explained:
        yield f"    explained: {fit(cause)}"
    if group.unexplained is not None:
        first = "" if group.unexplained_pane_ms is None else f", first in the pane at {_time(group.unexplained_pane_ms)} UTC"
        yield Text(f"    unexplained: {group.unexplained}{first}", "red")


def _pair(number: ChangedNumber) -> str:
    online, offline = number.online, number.offline
    if isinstance(online, int) and isinstance(offline, int):
        return f"online {online:,}, offline {offline:,} ({offline - online:+,})"
    return f"online {_value(online)}, offline {_value(offline)}"


def _value(value: Any) -> str:
    return "none" if value is None else fit(", ".join(map(str, value)) if isinstance(value, list) else str(value)) or "empty"


def _with_time(text: str) -> str:
    """Replace the end of a window in a sentence, epoch ms, by its time."""
    before, word, at = text.rpartition(" ends at ")
    return f"{before}{word}{_time(int(at))} UTC" if word and at.isdigit() else text


def _time(at_ms: int | None) -> str:
    """Format a time to the second, in UTC.

    >>> _time(1_732_183_200_000), _time(None)
    ('2024-11-21 10:00:00', '-')
    """
    return "-" if at_ms is None else second_text(at_ms).removesuffix(" UTC")
