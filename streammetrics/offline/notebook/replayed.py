"""`streammetrics.replay`: replays files in this process and returns the results as tables."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from streammetrics.config import Settings, load
from streammetrics.connectors.files import expanded_paths
from streammetrics.errors import CallerError, ConfigError
from streammetrics.metrics.tables import DataTable
from streammetrics.offline.notebook.report_tables import ReportTables
from streammetrics.offline.replay.files import ReplayOutputs
from streammetrics.offline.replay.files import replay as replay_files
from streammetrics.offline.replay.time_order import Order
from streammetrics.offline.replay.unusable_files import require_usable, unusable_files
from streammetrics.reports.result_records import PaneRow
from streammetrics.wiring.logs import quiet_logs

SettingsLike: TypeAlias = Settings | Mapping[str, Any] | str | os.PathLike[str] | None


@dataclass(frozen=True, slots=True, repr=False)
class ReplayTables(ReportTables):
    """The results of a replay: the tables of its report (see `ReportTables`), and its panes.

    panes: one row per pane, group, view and metric; the columns are those of `PaneRow`, and `value`. Sums are exact integers.
    """

    panes: DataTable

    @classmethod
    def of(cls, report: Mapping[str, Any], panes: Sequence[PaneRow]) -> ReplayTables:
        columns = {name: [row[at] for row in panes] for at, name in enumerate(PaneRow._fields)}
        return cls(report, DataTable({**columns, "value": [row.value for row in panes]}))


def replay(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], settings: SettingsLike = None, *, jobs: int = 1, order: Order = "auto"
) -> ReplayTables:
    """Replay files of events as `streammetrics replay` does, and return all results as tables. All lists become final.

    paths: one path or several; patterns such as `exports/*.parquet` are expanded. Formats: see `streammetrics replay --help`.
    settings: None for the defaults; a path of a TOML file; a mapping of dotted keys, such as {"metrics.cutoffs": [10]}; or Settings.
        The environment is not read, so that a notebook gives the same numbers everywhere.
    jobs: processes that share the users. The numbers do not depend on it.
    order: "log" reads the events in the order of the file, as `run` reads a topic; "time" sorts them by time; "auto" sorts a file of which
        too many events would be late.

    Raises ConfigError for settings and paths that cannot be used, and StreammetricsError for files of which no line can be used.

    >>> import json, tempfile
    >>> impression = {"type": "impression", "user_id": "u", "impression_id": "l", "ts": 1_700_000_000_000, "items": ["a", "b"]}
    >>> click = {"type": "feedback", "user_id": "u", "impression_id": "l", "ts": 1_700_000_000_500, "item_id": "b", "action": "click"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "events.ndjson"
    ...     _ = path.write_text(json.dumps(impression) + "\\n" + json.dumps(click) + "\\n")
    ...     result = replay(path, {"metrics.names": ["mrr"], "metrics.cutoffs": [10]})
    >>> result
    2 events, no experiment
    experiment  variant  lists  lists_with_feedback  metric  k   value   value_with_feedback
                         1      1                    mrr     10  0.5000  0.5000
    >>> result.panes.where(view="final")["numerator"][0] == 1 << 39
    True
    """
    chosen = settings_of(settings)
    if not isinstance(paths, str | os.PathLike | Iterable):
        raise CallerError("paths", f"got {paths!r}; allowed are a path or several")
    several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files = expanded_paths([os.fspath(path) for path in several])
    with quiet_logs(chosen.log.level, chosen.log.format), tempfile.TemporaryDirectory() as folder:
        report_path = Path(folder) / "report.json"
        panes: list[PaneRow] = []
        outputs = ReplayOutputs(report=report_path, pane_rows=panes)
        result = replay_files(chosen, files, outputs, jobs=jobs, order=order)
        require_usable(unusable_files(result.report), result, chosen)
        plain = msgspec.json.decode(report_path.read_bytes())
    return ReplayTables.of(plain, panes)


def settings_of(given: SettingsLike) -> Settings:
    """Return the settings that a caller has given. Raises ConfigError."""
    if isinstance(given, Settings):
        return given
    if given is None or isinstance(given, Mapping):
        try:
            return load(None, {}, dict(given or {})).settings
        except ConfigError as error:  # there is no command line here
            raise ConfigError([replace(problem, origin="settings") for problem in error.problems]) from None
    return load(Path(given), {}, {}).settings
