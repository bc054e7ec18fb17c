"""`differences`: compares an online report with an offline one, and says why their numbers differ. Changes no state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from streammetrics.cli.command import command
from streammetrics.cli.commands.report import read_plain
from streammetrics.cli.common_options import configured, load_settings
from streammetrics.cli.exporter_client import ExporterClient
from streammetrics.cli.output.difference_lines import difference_lines
from streammetrics.cli.output.report_reader import REPORT_ADVICE, read_report
from streammetrics.cli.output.standard_output import print_json
from streammetrics.cli.output.terminal import output_console
from streammetrics.cli.process.signals import interrupt_on_signals
from streammetrics.config import Settings
from streammetrics.errors import ConfigError, Problem, StreammetricsError
from streammetrics.offline.differences.comparison import ComparedSide, find_differences
from streammetrics.offline.differences.pane_sums import PaneSums
from streammetrics.wiring.logs import configure_quiet_logs

_NEEDED: Final = frozenset({"settings", "counters", "counters_by_topic", "windows", "totals", "experiments", "final_ms", "ended"})
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
    read_report(plain, name)  # raises for what is no report
    if not isinstance(plain, Mapping) or not plain.keys() >= _NEEDED:
        raise StreammetricsError(f"{name} is not a whole report; {REPORT_ADVICE}")
    return ComparedSide(name, plain, None if panes is None else _read_panes(panes, option))


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
