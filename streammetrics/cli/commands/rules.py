"""The options of `rules`."""

from __future__ import annotations

from typing import Any

import click

from streammetrics.cli.command import command
from streammetrics.cli.common_options import into_folder, selecting
from streammetrics.exporters.prometheus.rules.links import RUNBOOKS


@command
@into_folder
@selecting
@click.option("--threshold", "thresholds", multiple=True, metavar="NAME=NUMBER", help="Change a threshold, such as lag_seconds=900.")
@click.option("--show-thresholds", is_flag=True, help="Print every threshold with its default and meaning, and exit.")
@click.option("--metric", default="ndcg@10", show_default=True, help="The metric for the quality of all traffic.")
@click.option("--job", default="streammetrics", show_default=True, help="The scrape job of workers and exporters.")
@click.option("--runbooks", default=RUNBOOKS, show_default=True, metavar="URL", help="Where the runbook pages are: <URL><alert>.md.")
@click.option("--grafana", default="", metavar="URL", help="Address of your Grafana, for links to the dashboards.")
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
    from streammetrics.cli.rules import RulesRequest, print_thresholds, write_rules  # noqa: PLC0415

    if show_thresholds:
        print_thresholds()
    else:
        write_rules(RulesRequest(**options))
