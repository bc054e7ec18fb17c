"""Copies what Prometheus and Alertmanager load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from streammetrics.cli.command import command
from streammetrics.cli.options import into_folder
from streammetrics.cli.output.standard_output import standard_output
from streammetrics.connectors.atomic_file import AtomicFile
from streammetrics.errors import ConfigError, Problem
from streammetrics.exporters.package_files import package_file

PAGE: Final = "http://localhost:9464"
"""The address of the page in the sources of the rules."""


@command
@into_folder
@click.option("--page", default=PAGE, show_default=True, metavar="URL", help="Address of the page, as readers of an alert reach it.")
def rules(out: Path, page: str, *, force: bool) -> None:
    """Write recording rules, alerting rules and routes of Alertmanager.

    The files are recording_rules.yml, alerting_rules.yml and alertmanager.yml. Comments in them say what to change for other thresholds,
    another metric, another scrape job, and for Slack, PagerDuty or a webhook. The links of alerts lead to the page and to its runbooks.

    \b
    Examples:
      streammetrics rules --out /etc/prometheus/streammetrics --page https://ranking.example
    """
    if not re.fullmatch(r"https?://[^\s\"'{}\\?#]+", page):
        raise ConfigError(
            [Problem("--page", page, "write an address that begins with https:// or http://, such as https://ranking.example")]
        )
    texts = {file.name: file.read_text(encoding="utf-8") for file in package_file("prometheus").iterdir()}
    write_files(out, {name: text.replace(PAGE, page.rstrip("/")) for name, text in texts.items()}, replace=force)
    click.echo(f"Prometheus: rule_files: [{out.resolve()}/*_rules.yml]", file=standard_output())
    click.echo(f"Alertmanager: --config.file={out.resolve()}/alertmanager.yml", file=standard_output())
    if page == PAGE:
        click.echo(f"Links of alerts lead to {PAGE}. --page sets another address.", file=standard_output())


def write_files(folder: Path, files: Mapping[str, str], *, replace: bool) -> None:
    """Write the files, and print their paths. Creates the folder.

    Raises ConfigError, before it writes anything, if a file exists with another content and `replace` is false.
    """
    contents = {folder / name: files[name].encode() for name in sorted(files)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = [path for path, content in contents.items() if not replace and path.exists() and path.read_bytes() != content]
    except OSError as error:
        raise ConfigError([Problem("--out", str(folder), f"cannot be written: {error.strerror or error}")]) from error
    if others:
        rule = "exists with another content; choose another folder, or replace it with --force"
        raise ConfigError([Problem("--out", str(path), rule) for path in others])
    for path, content in contents.items():
        with AtomicFile("--out", path) as file:
            file.write(content)
        click.echo(f"wrote {path}", file=standard_output())
