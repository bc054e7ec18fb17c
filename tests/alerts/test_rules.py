"""The rules use existing series only, and every alert has cases that fire and that do not."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from streammetrics.cli.commands.rules import PAGE
from streammetrics.exporters.prometheus.series import SERIES
from tests.alerts.cases import CASES
from tests.support.paths import ROOT
from tests.support.rules import ALERTS, FOLDER, INHIBITIONS, RECORDED, Alert, Inhibition, span_ms
from tests.support.tables import for_each

TESTS = ROOT / "tests"
NAMES = {alert.name for alert in ALERTS}
OF_PROMETHEUS = {"up"}
PUBLISHED = "https://github.com/streammetrics/streammetrics/blob/main/deploy/runbooks/"

GONE = {"StreammetricsAbsent": "job", "StreammetricsTargetDown": "instance"}
"""The alerts about processes that are gone, which may be the one with the page, and the label that they have on the list of targets."""

alerts = for_each(ALERTS, lambda alert: f"{alert.name} {alert.severity}")


def waits_ms(name: str) -> set[int]:
    return {span_ms(alert.waits) for alert in ALERTS if alert.name == name}


def comments() -> list[str]:
    """The comment above each alert, in their order; empty without one."""
    lines = (FOLDER / "alerting_rules.yml").read_text(encoding="utf-8").splitlines()
    texts, comment = [], ""
    for line in lines:
        if line.startswith("      # "):
            comment += line.removeprefix("      #")
        else:
            if line.startswith("      - alert:"):
                texts.append(comment.strip())
            comment = ""
    return texts


class TestRules:
    def test_every_queried_series_exists(self) -> None:
        texts = [*RECORDED.values(), *(text for alert in ALERTS for text in (alert.expression, *alert.annotations.values()))]
        queried = {name for text in texts for name in re.findall(r"(?<![:\w/])(?:streammetrics_\w+|up)\b(?!:)", text)}
        assert len(queried) > 20
        assert queried <= SERIES.keys() | OF_PROMETHEUS

    def test_every_recorded_series_is_used_after_it_is_recorded(self) -> None:
        names_so_far: set[str] = set()
        used: set[str] = set()
        for name, expression in RECORDED.items():
            queried = set(re.findall(r"job\w*:\w+:\w+", expression)) - {name}
            assert queried <= names_so_far
            names_so_far.add(name)
            used |= queried
        used |= {name for alert in ALERTS for name in re.findall(r"job\w*:\w+:\w+", alert.expression + alert.annotations["description"])}
        assert used == names_so_far

    def test_alert_names_have_one_form_and_each_severity_once(self) -> None:
        entries = [(alert.name, alert.severity) for alert in ALERTS]
        assert len(set(entries)) == len(entries)
        assert all(re.fullmatch(r"Streammetrics([A-Z][a-z]+)+", name) for name in NAMES)
        assert {alert.severity for alert in ALERTS} == {"critical", "warning"}

    def test_every_alert_has_cases_for_each_severity_and_for_silence(self) -> None:
        tried = defaultdict[str, set[str]](set)
        for case in CASES:
            tried[case.alert] |= {fired.severity for fired in case.fires} or {"silent"}
        assert tried == {name: {"silent", *(alert.severity for alert in ALERTS if alert.name == name)} for name in NAMES}


@alerts
def test_a_comment_above_an_alert_names_each_number_that_its_expression_compares_with(alert: Alert) -> None:
    comment = comments()[ALERTS.index(alert)]
    assert len(comment) > 40
    compared = {*re.findall(r"(?:[<>]=? \(?|1 - |\* )(-?\d+(?:\.\d+)?)(?![\d.]*[smhdw]\b)", alert.expression)} - {"0", "1", "-1"}
    assert [number for number in compared if not re.search(rf"(?<![\d.-]){number}(?!\.?\d)", comment)] == []


@alerts
def test_links_lead_to_the_page_and_its_runbooks_but_those_of_a_process_that_is_gone_to_what_lives(alert: Alert) -> None:
    of_experiment = "experiment" in alert.annotations["page_url"]
    card = "#experiment-{{ $labels.experiment | urlquery }}" if of_experiment else ""
    assert of_experiment == ("{{ $labels.experiment }}" in alert.annotations["summary"])
    published = f"{PUBLISHED}{alert.name}.md"
    assert (ROOT / published.partition("/blob/main/")[2]).is_file()
    if alert.name in GONE:
        targets = f"{{{{ $externalURL }}}}/targets?search={{{{ $labels.{GONE[alert.name]} | urlquery }}}}"
        assert (alert.annotations["runbook_url"], alert.annotations["page_url"]) == (published, targets)
    else:
        assert (alert.annotations["runbook_url"], alert.annotations["page_url"]) == (f"{PAGE}/help/{alert.name}", f"{PAGE}/{card}")


def test_the_guide_lists_the_alerts_tried_by_promtool_only() -> None:
    source = (TESTS / "integration" / "test_alerts.py").read_text(encoding="utf-8")
    triggered = {
        name for line in source.splitlines() if "wait_until_fires" not in line for name in re.findall(r'"(Streammetrics\w+)"', line)
    }
    assert "StreammetricsRedisDown" in triggered
    guide = (ROOT / "deploy" / "checked.md").read_text(encoding="utf-8")
    table = guide.partition("tested by promtool only:")[2].partition("\n**")[0]
    assert set(re.findall(r"^\| (Streammetrics\w+) \|", table, re.MULTILINE)) == NAMES - triggered


class TestInhibitions:
    def test_inhibitions_name_existing_alerts(self) -> None:
        assert len(INHIBITIONS) > 10
        assert {inhibition.source for inhibition in INHIBITIONS} | {
            target for inhibition in INHIBITIONS for target in inhibition.targets
        } <= NAMES

    @pytest.mark.parametrize("inhibition", INHIBITIONS, ids=lambda inhibition: inhibition.source)
    def test_a_cause_fires_no_later_than_its_consequences(self, inhibition: Inhibition) -> None:
        """Otherwise the consequence pages first, and the cause pages too."""
        assert all(max(waits_ms(inhibition.source)) <= min(waits_ms(target)) for target in inhibition.targets)

    def test_no_alert_silences_itself_through_others(self) -> None:
        silences = {
            source: {target for inhibition in INHIBITIONS if inhibition.source == source for target in inhibition.targets}
            for source in NAMES
        }

        def reached(name: str, seen: frozenset[str] = frozenset()) -> set[str]:
            return {target for next_ in silences[name] - seen for target in {next_, *reached(next_, seen | {next_})}}

        assert all(name not in reached(name) for name in NAMES)

    def test_no_other_alert_silences_a_regression(self) -> None:
        assert not [inhibition for inhibition in INHIBITIONS if "StreammetricsRankingRegressed" in inhibition.targets]
