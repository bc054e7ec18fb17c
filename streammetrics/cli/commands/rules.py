"""Writes what Prometheus, Alertmanager and Grafana need beside the product."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from streammetrics.cli.command import command
from streammetrics.cli.common_options import into_folder, selecting
from streammetrics.cli.output.standard_output import standard_output
from streammetrics.connectors.atomic_file import AtomicFile
from streammetrics.errors import CallerError, ConfigError, Problem
from streammetrics.exporters.grafana.dashboards import dashboards
from streammetrics.exporters.prometheus.rules.options import RuleOptions, plain
from streammetrics.exporters.prometheus.rules.render import files
from streammetrics.exporters.prometheus.rules.thresholds import THRESHOLDS
from streammetrics.exporters.prometheus.selectors import Selectors


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesRequest:
    """The options of `rules`, as they are given."""

    out: Path | None
    force: bool
    prefix: str
    filters: Sequence[str]
    thresholds: Sequence[str]
    metric: str
    job: str
    runbooks: str
    grafana: str
    page: str
    notify: str
    marks: str
    marks_user: str

    def parsed(self) -> RuleOptions:
        """Return the options of the rules. Raises CallerError or ConfigError."""
        return RuleOptions(
            job=self.job,
            metric=self.metric,
            runbooks=self.runbooks,
            grafana=self.grafana.rstrip("/"),
            page=self.page.rstrip("/"),
            marks=self.marks.rstrip("/"),
            marks_user=self.marks_user,
            thresholds={name: _number(name, text) for name, text in _pairs("--threshold", self.thresholds, "lag_seconds=900").items()},
            selectors=_selectors(self.filters, self.prefix),
        )


def write_rules(request: RulesRequest) -> None:
    """Write the rules and the configuration of Alertmanager, and say how to use them."""
    folder = _required(request.out)
    try:
        made = files(request.parsed(), request.notify)
    except CallerError as error:
        raise click.UsageError(str(error)) from error
    _say_written(write_generated(folder, made, replace=request.force))
    click.echo(f"Prometheus: rule_files: [{folder.resolve()}/*_rules.yml]", file=standard_output())
    click.echo(f"Alertmanager: --config.file={folder.resolve()}/alertmanager.yml", file=standard_output())


def write_dashboards(out: Path | None, filters: Sequence[str], *, prefix: str, force: bool) -> None:
    """Write the dashboards."""
    folder = _required(out)
    try:
        made = dashboards(_selectors(filters, prefix) if filters or prefix else None)
    except CallerError as error:
        raise click.UsageError(str(error)) from error
    _say_written(write_generated(folder, made, replace=force))


def print_thresholds() -> None:
    """Print every threshold with its default and meaning."""
    width = max(len(each.name) for each in THRESHOLDS)
    for each in THRESHOLDS:
        click.echo(f"{each.name:{width}}  {plain(each.value):>5}  {each.meaning}", file=standard_output())


def _required(out: Path | None) -> Path:
    if out is None:
        raise click.UsageError("Missing option '--out'.")
    return out


def _say_written(paths: Iterable[Path]) -> None:
    for path in paths:
        click.echo(f"wrote {path}", file=standard_output())


def _selectors(filters: Sequence[str], prefix: str) -> Selectors:
    return Selectors(prefix=prefix, labels=_pairs("--filter", filters, "env=prod"))


def _pairs(option: str, given: Sequence[str], example: str) -> Mapping[str, str]:
    rule = f"write NAME=VALUE, such as {example}"
    problems = [Problem(option, text, rule) for text in given if "=" not in text or not text.partition("=")[0].strip()]
    if problems:
        raise ConfigError(problems)
    return {name.strip(): value.strip() for name, _, value in (text.partition("=") for text in given)}


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CallerError(f"threshold {name}", f"got {text!r}; write a number, such as {name}=0.1") from None


def write_generated(folder: Path, files: Mapping[str, str], *, replace: bool) -> list[Path]:
    """Write the files and return their paths. Creates the folder.

    Raises ConfigError, before it writes anything, if a file exists with another content and `replace` is false.
    """
    paths = {folder / name: text.encode() for name, text in files.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kept = [path for path, content in paths.items() if not replace and path.exists() and path.read_bytes() != content]
    except OSError as error:
        raise ConfigError([Problem("--out", str(folder), f"cannot be written: {error.strerror or error}")]) from error
    if kept:
        rule = "exists with another content; choose another folder, or replace it with --force"
        raise ConfigError([Problem("--out", str(path), rule) for path in kept])
    for path, content in paths.items():
        with AtomicFile("--out", path) as file:
            file.write(content)
    return list(paths)


@command
@into_folder
@selecting
@click.option("--threshold", "thresholds", multiple=True, metavar="NAME=NUMBER", help="Change a threshold, such as lag_seconds=900.")
@click.option("--show-thresholds", is_flag=True, help="Print every threshold with its default and meaning, and exit.")
@click.option("--metric", default="ndcg@10", show_default=True, help="The metric for the quality of all traffic.")
@click.option("--job", default="streammetrics", show_default=True, help="The scrape job of workers and exporters.")
@click.option(
    "--runbooks", default="", metavar="URL", help="Where the runbook pages are: <URL><alert>.md.  [default: /help/<alert> of the exporter]"
)
@click.option("--grafana", default="", metavar="URL", help="Address of your Grafana. Without it, alerts have no link to a dashboard.")
@click.option("--page", default="", metavar="URL", help="Address of the live page, for links. Default: where Prometheus scrapes it.")
@click.option(
    "--notify",
    type=click.Choice(["none", "slack", "pagerduty", "webhook"]),
    default="none",
    show_default=True,
    help="What the configuration of Alertmanager sends alerts to.",
)
@click.option("--marks", default="", metavar="URL", help="Address of an exporter, so that Alertmanager marks its alerts on the curves.")
@click.option("--marks-user", default="", metavar="NAME", help="The login of Alertmanager at the exporter, if its port has one.")
def rules(show_thresholds: bool, **options: Any) -> None:
    """Write recording rules, alerting rules and a configuration of Alertmanager.

    The files are recording_rules.yml, alerting_rules.yml and alertmanager.yml. With --filter the rules read only series with this label.
    What they record and their alerts have it too. The stream must compute the metric of --metric.

    \b
    Examples:
      streammetrics rules --out /etc/prometheus/streammetrics
      streammetrics rules --out rules --threshold lag_seconds=900 --threshold fell_warning=0.05 --metric mrr@20
      streammetrics rules --out rules --grafana https://grafana.example --page https://ranking.example --runbooks https://wiki.example/runbooks/
      streammetrics rules --out rules --filter env=prod --notify slack
      streammetrics rules --out rules --marks http://exporter:9464 --marks-user alertmanager
      streammetrics rules --show-thresholds
    """
    if show_thresholds:
        print_thresholds()
    else:
        write_rules(RulesRequest(**options))
