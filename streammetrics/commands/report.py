"""`report` as its user sees it: the experiments of a live store or of a report file, in words, as JSON or as a page. Writes no state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from streammetrics.adapters.file_source import standard_input
from streammetrics.commands.findings import GIVE_A_REPORT, Findings, findings_of, to_json
from streammetrics.commands.logs import configure_quiet_logs
from streammetrics.commands.output_paths import require_distinct, standard_output
from streammetrics.commands.terminal import output_console
from streammetrics.commands.verdict_page import page
from streammetrics.commands.verdict_tables import verdict_lines
from streammetrics.commands.written_whole import WrittenWhole
from streammetrics.config import Settings
from streammetrics.errors import ConfigError, Problem, StreammetricsError

STDIN = Path("-")


def show_report(
    settings: Settings, file: Path | None, *, form: Literal["text", "json"], html: Path | None, names: Sequence[str], all_measures: bool
) -> None:
    """Read the report and tell it. Raises ConfigError for files that cannot be read, written or be both, StoreError, StateError."""
    require_distinct([] if file is None or file == STDIN else [file], {"--html": html})
    configure_quiet_logs(settings.log.level, settings.log.format)
    where = f"redis.namespace {settings.redis.namespace!r}" if file is None else "standard input" if file == STDIN else file.name
    findings = findings_of(live_report(settings) if file is None else _read(file, where), where).only(names)
    if html is not None:
        with WrittenWhole("--html", html) as written:
            written.write(page(findings, where))
    if form == "json":
        output = standard_output().buffer
        output.write(msgspec.json.format(msgspec.json.encode(to_json(findings)), indent=2) + b"\n")
        output.flush()
    else:
        _print(findings, all_measures)


def live_report(settings: Settings) -> dict[str, Any]:
    """The report of what is committed now, with the looks so far, as `/api/report` serves it."""
    from streammetrics.adapters.redis.shelf import RedisShelf  # noqa: PLC0415  files need no Redis client
    from streammetrics.adapters.redis.store import RedisStore  # noqa: PLC0415
    from streammetrics.commands.assembly import build_engine, build_ledger  # noqa: PLC0415
    from streammetrics.commands.connections import redis_connection  # noqa: PLC0415
    from streammetrics.history_keeper import HISTORY_KEY, decode_history  # noqa: PLC0415
    from streammetrics.reading import read_all  # noqa: PLC0415

    engine = build_engine(settings, settings.kafka.topics)
    ledger = build_ledger(settings, engine)
    store, shelf = RedisStore(redis_connection(settings)), RedisShelf(redis_connection(settings), HISTORY_KEY)
    try:
        tasks = store.partitions()
        if tasks is None:
            raise StreammetricsError(f"nothing was ever committed under redis.namespace {settings.redis.namespace!r}")
        read_all(store, ledger, tasks)
        report = ledger.report(tasks)
        return report.to_json(engine.layout) | {"history": decode_history(shelf.read()).to_json()}
    finally:
        shelf.close()
        store.close()


def _read(file: Path, where: str) -> object:
    try:
        content = standard_input().read() if file == STDIN else file.read_bytes()
    except OSError as error:
        raise ConfigError([Problem("FILE", str(file), f"cannot be read: {error.strerror or error}")]) from error
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise StreammetricsError(f"{where} is no report, for it is not JSON ({error}): {GIVE_A_REPORT}") from error
    except RecursionError:
        raise StreammetricsError(f"{where} is no report: its JSON is nested too deeply") from None


def _print(findings: Findings, all_measures: bool) -> None:
    console = output_console()
    for line in verdict_lines(findings, all_measures):
        console.print(line)
