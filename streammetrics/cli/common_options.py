"""Options that several commands share, and how they become settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from streammetrics.config import LoadedSettings

PORT = click.IntRange(0, 65535)
FILE = click.Path(path_type=Path, dir_okay=False)


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
