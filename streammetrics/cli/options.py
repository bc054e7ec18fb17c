"""Options that several commands share, their types, and how they become settings.

Types only convert text to values; they open no file.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from streammetrics.config import LoadedSettings
from collections.abc import Iterable, Mapping
from itertools import combinations

from streammetrics.errors import ConfigError, Problem

PORT = click.IntRange(0, 65535)
FILE = click.Path(path_type=Path, dir_okay=False)
SEED = click.IntRange(0, 2**63 - 1)


def configured(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that every command has: --config and --set."""
    function = click.option(
        "--set",
        "settings_given",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override one setting, such as join.gap_ms=600000. May be repeated.",
    )(function)
    return click.option("--config", "config_path", type=FILE, help="TOML configuration file.  [default: $STREAMMETRICS_CONFIG]")(function)


def load_settings(
    config_path: Path | None, settings_given: tuple[str, ...], read: Callable[..., LoadedSettings] | None = None, **flags: object
) -> LoadedSettings:
    """Load settings from file, environment and flags. `http__port=1` sets http.port; None is not given. `read` replaces `load`."""
    from streammetrics.config import load  # noqa: PLC0415

    given = dict(map(_key_and_value, settings_given)) | {key.replace("__", "."): value for key, value in flags.items() if value is not None}
    loaded = (read or load)(config_path, os.environ, given)
    for warning in loaded.warnings:
        click.echo(f"streammetrics: warning: {warning}", err=True)
    return loaded


def _key_and_value(given: str) -> tuple[str, object]:
    key, equals, value = given.partition("=")
    if not (equals and key.strip()):
        raise click.UsageError(f"--set {given!r}: write --set KEY=VALUE, such as --set join.gap_ms=600000")
    return key.strip(), value


def serving(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that serve HTTP: --host and --port."""
    function = click.option("--host", help="Address for HTTP.  [default: 127.0.0.1]")(function)
    return click.option("--port", type=PORT, help="Port of /metrics and the page. 0: any free port.  [default: 9464]")(function)


def into_folder(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that write files into a folder: --out and --force."""
    folder = click.Path(path_type=Path, file_okay=False)
    function = click.option("--force", is_flag=True, help="Replace files that exist with another content.")(function)
    return click.option("--out", required=True, type=folder, metavar="DIR", help="Folder to write to.")(function)


class FiniteFloatRange(click.FloatRange):
    """A finite number within bounds. click.FloatRange itself accepts NaN, and infinity if a bound is missing.

    >>> FiniteFloatRange(min=0).convert("0.5", None, None)
    0.5
    >>> FiniteFloatRange(min=0).convert("nan", None, None)
    Traceback (most recent call last):
    click.exceptions.BadParameter: nan is not a finite number.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raises click.BadParameter."""
        number = click.FLOAT.convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return float(super().convert(number, param, ctx))


PAGE_SUFFIXES: Final = (".html", ".htm", ".xhtml", ".xht", ".svg")
"""A browser runs what is inside a file of such a name."""


class OutputFile(click.Path):
    """A file to write. `-` is rejected, because elsewhere it means standard output.

    The name of a page is rejected: the file holds data with text of strangers, which a browser would run.

    >>> OutputFile().convert("-", None, None)
    Traceback (most recent call last):
    click.exceptions.BadParameter: standard output is not allowed here; give a file (./- for a file named -).
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises click.BadParameter."""
        if value == "-":
            self.fail("standard output is not allowed here; give a file (./- for a file named -).", param, ctx)
        name = os.fsdecode(value)
        if name.lower().endswith(PAGE_SUFFIXES):
            self.fail(f"{name} is the name of a page, and this file holds data; choose another name", param, ctx)
        if name.lower().endswith(".parquet"):
            self.fail(
                f"{name} is the name of a Parquet file, and this file holds JSON; name it .ndjson, which pandas and DuckDB read", param, ctx
            )
        return super().convert(value, param, ctx)


class ReportFile(click.Path):
    """A report to read: a file, or `-` for standard input. The address of an exporter is rejected.

    >>> ReportFile().convert("http://exporter:9464", None, None)
    Traceback (most recent call last):
    click.exceptions.BadParameter: http://exporter:9464 is an address; use --url http://exporter:9464
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path, allow_dash=True)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises click.BadParameter."""
        name = os.fsdecode(value)
        if name.lower().startswith(("http://", "https://")):
            self.fail(f"{name} is an address; use --url {name}", param, ctx)
        return super().convert(value, param, ctx)


def span_seconds(context: click.Context | None, option: click.Parameter | None, given: str | None) -> float | None:
    """Return the seconds of a span of time such as 90s, 15m or 2h. Raises click.BadParameter.

    >>> span_seconds(None, None, "15m")
    900.0
    >>> span_seconds(None, None, "soon")
    Traceback (most recent call last):
    click.exceptions.BadParameter: 'soon': a duration is a whole number with ms, s, m, h or d, such as 5m
    """
    from streammetrics.config.times import parse_duration  # noqa: PLC0415  slow import

    try:
        return None if given is None else parse_duration(given).ms / 1_000
    except ValueError as error:
        raise click.BadParameter(f"{given!r}: {error}", context, option) from None


def moment_ms(context: click.Context | None, option: click.Parameter | None, given: str | None) -> int | None:
    """Return a time (epoch ms): one with its zone, or a span ago such as 40m. Raises click.BadParameter.

    >>> moment_ms(None, None, "2024-11-21T10:00Z")
    1732183200000
    >>> moment_ms(None, None, "noon")
    Traceback (most recent call last):
    click.exceptions.BadParameter: 'noon': a time has a date and a zone, such as 2026-02-01T09:00:00Z; a span ago is such as 40m
    """
    from streammetrics.words.times import parse_since  # noqa: PLC0415  slow import

    if given is None:
        return None
    try:
        return parse_since(given, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise click.BadParameter(f"{given!r}: {error}", context, option) from None


def require_distinct(files: Iterable[Path], outputs: Mapping[str, Path | None]) -> None:
    """Raise ConfigError if an output overwrites an input or another output. `outputs` maps options to paths (None: not given).

    Pipes and devices such as /dev/null may be given twice.

    >>> require_distinct([Path("events")], {"--panes": Path("panes"), "--report": None})
    >>> require_distinct([Path("events")], {"--panes": Path("./events")})
    Traceback (most recent call last):
    streammetrics.errors.ConfigError: --panes = events: is also given as FILE; choose another output file
    """
    named = [("FILE", file) for file in files]
    named += [(option, path) for option, path in outputs.items() if path is not None]
    problems = [
        Problem(option, str(path), f"is also given as {other}; choose another output file")
        for (other, first), (option, path) in combinations(named, 2)
        if option != "FILE" and (path.is_file() or not path.exists()) and _is_same(first, path)
    ]
    if problems:
        raise ConfigError(problems)


def _is_same(one: Path, other: Path) -> bool:
    """Return whether two paths are the same file, also through links, and also if it does not exist yet."""
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))
