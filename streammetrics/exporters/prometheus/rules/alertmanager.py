"""The configuration of Alertmanager: routes, inhibitions, and receivers for Slack, PagerDuty or a webhook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from streammetrics.exporters.prometheus.rules.model import Inhibition
from streammetrics.exporters.prometheus.rules.table import INHIBITIONS

PREFIX: Final = "Streammetrics"
"""The start of every alert name."""
_TITLE: Final = "{{ .CommonAnnotations.summary }}"
_LINES: Final = (
    "{{ range .Alerts }}{{ .Annotations.summary }}: {{ .Annotations.description }}\n"
    "<{{ .Annotations.page_url }}|Page> · <{{ .Annotations.runbook_url }}|Runbook>"
    "{{ with .Annotations.dashboard_url }} · <{{ . }}|Dashboard>{{ end }}\n"
    "{{ end }}"
)
_DASHBOARD: Final = {"href": "{{ .CommonAnnotations.dashboard_url }}", "text": "Dashboard"}
_SLACK: Final = {
    "api_url_file": "/etc/alertmanager/slack",
    "send_resolved": True,
    "title": '{{ if eq .Status "resolved" }}Resolved: {{ end }}' + _TITLE,
    "text": _LINES,
}
_PAGERDUTY: Final = {
    "routing_key_file": "/etc/alertmanager/pagerduty",
    "severity": "{{ .CommonLabels.severity }}",
    "description": _TITLE,
    "details": {"description": "{{ .CommonAnnotations.description }}"},
    "links": [
        {"href": "{{ .CommonAnnotations.page_url }}", "text": "Page"},
        {"href": "{{ .CommonAnnotations.runbook_url }}", "text": "Runbook"},
        _DASHBOARD,
    ],
}
_WEBHOOK: Final = {"url": "http://127.0.0.1:8080/alerts", "send_resolved": True}

MARKS_PASSWORD_FILE: Final = "/etc/alertmanager/streammetrics"
MARKED_MAX: Final = 30
"""Most alerts of a message to /api/marks. Their texts then fit into a request."""

RECEIVERS: Final[Mapping[str, tuple[Mapping[str, Any], ...]]] = {
    "none": ({"name": "page"}, {"name": "ticket"}),
    "slack": (
        {"name": "page", "slack_configs": [{"channel": "#ranking-alerts", **_SLACK}]},
        {"name": "ticket", "slack_configs": [{"channel": "#ranking", **_SLACK}]},
    ),
    "pagerduty": ({"name": "page", "pagerduty_configs": [_PAGERDUTY]}, {"name": "ticket"}),
    "webhook": ({"name": "page", "webhook_configs": [_WEBHOOK]}, {"name": "ticket", "webhook_configs": [_WEBHOOK]}),
}
"""Receivers by the value of --notify. The first gets critical alerts, the last one all others."""
NOTES: Final[Mapping[str, str]] = {
    "none": "`page` is for alerts that need someone now, `ticket` for the rest. No notification is sent until you configure both.\n"
    "`streammetrics rules --notify slack` (or pagerduty, or webhook) writes examples.",
    "slack": "`page` is for alerts that need someone now, `ticket` for the rest. Set both channels. The file holds the address of\n"
    "Slack's incoming webhook.",
    "pagerduty": "`page` is for alerts that need someone now. The file holds the integration key (Events API v2) of the service.\n"
    "`ticket` is for the rest, and sends no notification until you configure it.",
    "webhook": "`page` is for alerts that need someone now, `ticket` for the rest. Alertmanager sends JSON to the address by POST.",
}
"""What to set, by the value of --notify."""


def without_dashboards(receivers: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Return the receivers without the link to a dashboard. An alert has none while the address of Grafana is unknown."""
    return tuple(
        {**each, "pagerduty_configs": [{**one, "links": [link for link in one["links"] if link is not _DASHBOARD]} for one in configs]}
        if (configs := each.get("pagerduty_configs"))
        else each
        for each in receivers
    )


MARKS_NOTE: Final = "Both also post their alerts to the page of the exporter, which marks them on its curves."


def with_marks(receivers: Sequence[Mapping[str, Any]], exporter: str, user: str = "") -> tuple[Mapping[str, Any], ...]:
    """Return the receivers, each with a post to /api/marks of an exporter. `user` is its login; its password is in MARKS_PASSWORD_FILE."""
    login = {"http_config": {"basic_auth": {"username": user, "password_file": MARKS_PASSWORD_FILE}}} if user else {}
    post = {"url": f"{exporter}/api/marks", "send_resolved": True, "max_alerts": MARKED_MAX, **login}
    return tuple({**each, "webhook_configs": [*each.get("webhook_configs", ()), post]} for each in receivers)


def alertmanager(
    receivers: Sequence[Mapping[str, Any]] = RECEIVERS["none"], labels: Iterable[str] = (), *, at_once: bool = False
) -> dict[str, Any]:
    """Return the configuration as plain values.

    The first receiver gets critical alerts, the last one all others. Alerts that differ in one of `labels` are apart. `at_once` removes
    waiting times, for tests.
    """
    labels = tuple(labels)
    page, ticket = receivers[0]["name"], receivers[-1]["name"]
    waits = {"group_wait": "100ms", "group_interval": "1s"} if at_once else {"group_wait": "30s", "group_interval": "5m"}
    return {
        "route": {
            "receiver": ticket,
            "group_by": ["alertname", "job", "experiment", "variant", *labels],
            **waits,
            "repeat_interval": "12h",
            "routes": [{"receiver": page, "matchers": ['severity="critical"'], "repeat_interval": "4h"}],
        },
        "inhibit_rules": [
            {
                "source_matchers": ['severity="critical"'],
                "target_matchers": ['severity="warning"'],
                "equal": ["alertname", "job", "experiment", "variant", "topic", *labels],
            },
            *(_inhibit_rule(each, labels) for each in INHIBITIONS),
        ],
        "receivers": list(receivers),
    }


def _inhibit_rule(inhibition: Inhibition, labels: tuple[str, ...]) -> dict[str, Any]:
    targets = "|".join(name.removeprefix(PREFIX) for name in inhibition.targets)
    return {
        "source_matchers": [f'alertname="{inhibition.source}"'],
        "target_matchers": [f'alertname=~"{PREFIX}({targets})"'],
        "equal": [*inhibition.equal, *labels],
    }
