"""`differences`: compares an online report with an offline one, and says why their numbers differ. Changes no state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from rich.console import RenderableType
from rich.text import Text

from streammetrics.cli.command import command
from streammetrics.cli.commands.report import read_plain
from streammetrics.cli.common_options import configured, load_settings
from streammetrics.cli.exporter_client import ExporterClient
from streammetrics.cli.output.report_reader import read_whole
from streammetrics.cli.output.standard_output import print_json
from streammetrics.cli.output.tables import UNLABELLED
from streammetrics.cli.output.terminal import FittingTable, output_console
from streammetrics.cli.process.signals import interrupt_on_signals
from streammetrics.config import Settings
from streammetrics.errors import ConfigError, Problem, StreammetricsError
from streammetrics.offline.differences.comparison import ComparedSide, find_differences
from streammetrics.offline.differences.found import ChangedGroup, ChangedNumber, FoundDifferences, SideSpan
from streammetrics.offline.differences.groups import PANES
from streammetrics.offline.differences.pane_sums import PaneSums
from streammetrics.reports.text import counted, fit
from streammetrics.reports.time_text import second_text
from streammetrics.wiring.logs import configure_quiet_logs

_PANES_ADVICE: Final = "give a file from `replay --panes`, `report --panes` or kafka.results_topic"


def run_differences(online: ComparedSide, offline: ComparedSide, *, as_json: bool) -> int:
    """Compare, print what differs, and return the exit code: 0 equal, 1 different, 2 nothing was comparable."""
    found = find_differences(online, offline)
    if as_json:
        print_json(found)
    else:
        console = output_console()
        for line in difference_lines(found, (online.name, offline.name)):
            console.print(line, soft_wrap=isinstance(line, str))
    return 0 if found.equal else 1 if found.compared else 2


def read_side(settings: Settings, file: Path | None, panes: Path | None, option: str) -> ComparedSide:
    """Read one side: a report file, or without one the exporter at `client.url`; and its panes. `option` names those in errors.

    Raises ConfigError for a file that cannot be read, StreammetricsError for one that is something else, HttpError.
    """
    configure_quiet_logs(settings.log.level, settings.log.format)
    if file is None:
        client = ExporterClient(settings.client)
        plain, name = client.report(), client.url
    else:
        plain, name = read_plain(settings, file)
    return ComparedSide(name, read_whole(plain, name), None if panes is None else _read_panes(panes, option))


def _read_panes(path: Path, option: str) -> PaneSums:
    sums, number = PaneSums(), 0
    try:
        for line in _rows(path) if path.suffix == ".parquet" else _lines(path):
            number += 1
            sums.add(line)
    except OSError as error:
        raise ConfigError([Problem(option, str(path), f"cannot be read: {error.strerror or error}")]) from error
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise StreammetricsError(f"{path}: line {number} is not a pane; {_PANES_ADVICE}") from error
    return sums


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield msgspec.json.decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                raise StreammetricsError(f"{path}: line {number} is not JSON ({error}); {_PANES_ADVICE}") from error


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        raise ConfigError([Problem("panes", str(path), "needs pyarrow: pip install 'streammetrics[files]'")]) from None
    for batch in parquet.ParquetFile(path).iter_batches():
        yield from batch.to_pylist()


FAILED: Final = 2
"""Exit code of everything that prevents a comparison, as of diff and grep."""
_PANES: Final = click.Path(path_type=Path, dir_okay=False)


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


@partial(command, failed=FAILED)
@configured
@click.argument("online")
@click.argument("offline")
@click.option("--online-panes", type=_PANES, metavar="FILE", help="Final panes of ONLINE: NDJSON or Parquet.")
@click.option("--offline-panes", type=_PANES, metavar="FILE", help="Final panes of OFFLINE: NDJSON or Parquet.")
@click.option("--json", "as_json", is_flag=True, help="Print all differences as JSON.")
def differences(
    config_path: Path | None,
    settings_given: tuple[str, ...],
    *,
    online: str,
    offline: str,
    online_panes: Path | None,
    offline_panes: Path | None,
    as_json: bool,
) -> None:
    """Compare an online report with an offline one, and say why numbers differ.

    ONLINE and OFFLINE are each a report from `replay --report` or /api/report, or the URL of an exporter; - is standard input. The output
    has the settings that differ, the span of each side, counters by reason, and each group with numbers that differ. For each group it
    says what explains the difference, and what remains unexplained.

    Reports that end at different times, such as those of a running system, can only be compared by panes. Panes of a running system come
    from `report --panes` or from kafka.results_topic, and those of a replay from `replay --panes`. They are compared over their common
    span, as integers.

    A counter covers a whole run and all groups, so it explains "up to" so many lists. A login for exporters is in the section [client].

    Exit codes: 0 equal, 1 different, 2 wrong usage, or nothing that can be read or compared.

    \b
    Examples:
      streammetrics differences online.json offline.json
      streammetrics differences http://exporter:9464 offline.json --online-panes online.parquet --offline-panes offline.ndjson
      curl -s http://127.0.0.1:9464/api/report | streammetrics differences - offline.json --json
    """
    with interrupt_on_signals():
        if online == offline:
            raise click.UsageError("ONLINE and OFFLINE are the same")
        if (online_panes is None) != (offline_panes is None):
            raise click.UsageError("give --online-panes and --offline-panes together")
        sides, settings = [], load_settings(config_path, settings_given).settings
        for given, panes, option in ((online, online_panes, "--online-panes"), (offline, offline_panes, "--offline-panes")):
            is_url = given.lower().startswith(("http://", "https://"))
            if is_url:
                url = given.rstrip("/").removesuffix("/api/report")
                settings = load_settings(config_path, settings_given, client__url=url).settings
            sides.append(read_side(settings, None if is_url else Path(given), panes, option))
        code = run_differences(*sides, as_json=as_json)
    raise SystemExit(code)
