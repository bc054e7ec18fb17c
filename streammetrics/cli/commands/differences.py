"""The options of `differences`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import click

from streammetrics.cli.command import command
from streammetrics.cli.common_options import configured, load_settings

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
    from streammetrics.cli.process.signals import interrupt_on_signals  # noqa: PLC0415

    with interrupt_on_signals():
        from streammetrics.cli.differences import read_side, run_differences  # noqa: PLC0415

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
