"""The committed files match the table. The table uses existing series only, and every alert has cases that fire and that do not."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from streammetrics.exporters.prometheus.rules.alertmanager import PREFIX
from streammetrics.exporters.prometheus.rules.model import Inhibition
from streammetrics.exporters.prometheus.rules.options import RuleOptions
from streammetrics.exporters.prometheus.rules.recorded import RECORDED
from streammetrics.exporters.prometheus.rules.render import alerting_rules, files, recording_rules
from streammetrics.exporters.prometheus.rules.table import ALERTS, INHIBITIONS
from streammetrics.exporters.prometheus.rules.thresholds import THRESHOLDS
from streammetrics.exporters.prometheus.series import SERIES
from tests.alerts.cases import CASES
from tests.support.paths import ROOT

TESTS = ROOT / "tests"
COMMITTED = ROOT / "deploy" / "prometheus"
NAMES = {alert.name for alert in ALERTS}
OF_PROMETHEUS = {"up"}
SPAN_MS = {"s": 1_000, "m": 60_000}


def waits_ms(name: str) -> set[int]:
    return {int(alert.waits[:-1]) * SPAN_MS[alert.waits[-1]] for alert in ALERTS if alert.name == name}


def expressions(options: RuleOptions | None = None) -> list[str]:
    options = options or RuleOptions()
    return [
        rule["expr"] for made in (recording_rules(options), alerting_rules(options)) for group in made["groups"] for rule in group["rules"]
    ]


class TestFiles:
    @pytest.mark.parametrize("name", sorted(files()))
    def test_a_committed_file_matches_the_table(self, name: str) -> None:
        assert (COMMITTED / name).read_text(encoding="utf-8") == files()[name], "run streammetrics rules --force --out deploy/prometheus"

    def test_a_threshold_keeps_its_digits(self) -> None:
        values = RuleOptions(thresholds={"unmatched_least": 1_234_567.0, "refused_share": 0.012_345_678, "lag_seconds": 900}).values()
        assert (values["unmatched_least"], values["refused_share"], values["lag_seconds"]) == ("1234567", "0.012345678", "900")
        assert RuleOptions(thresholds={"refused_share": 0.07}).annotation("@refused_share") == "7 %"


class TestTable:
    def test_every_queried_series_exists(self) -> None:
        queried = {name for text in expressions() for name in re.findall(r"(?<![:\w])(?:streammetrics_\w+|up)\b(?!:)", text)}
        assert len(queried) > 20
        assert queried <= SERIES.keys() | OF_PROMETHEUS

    def test_every_recorded_series_is_used_after_it_is_recorded(self) -> None:
        known: set[str] = set()
        used: set[str] = set()
        for recorded in RECORDED:
            queried = set(re.findall(r"job\w*:\w+:\w+", recorded.expression)) - {recorded.name}
            assert queried <= known
            known.add(recorded.name)
            used |= queried
        used |= {name for alert in ALERTS for name in re.findall(r"job\w*:\w+:\w+", alert.expression + alert.description)}
        assert used == known

    def test_every_threshold_is_used(self) -> None:
        used = {name for alert in ALERTS for name in re.findall(r"@(\w+)", alert.expression)} - {"job"}
        assert used == {threshold.name for threshold in THRESHOLDS}

    def test_alert_names_have_one_form_and_each_severity_once(self) -> None:
        entries = [(alert.name, alert.severity) for alert in ALERTS]
        assert len(set(entries)) == len(entries)
        assert all(re.fullmatch(PREFIX + r"([A-Z][a-z]+)+", name) for name in NAMES)

    def test_every_alert_has_cases_for_each_severity_and_for_silence(self) -> None:
        tried = defaultdict(set)
        for case in CASES:
            tried[case.alert] |= {fired.severity for fired in case.fires} or {"silent"}
        assert tried == {name: {"silent", *(alert.severity for alert in ALERTS if alert.name == name)} for name in NAMES}

    def test_the_scale_shortens_spans_and_no_other_numbers(self) -> None:
        plain, short = expressions(), expressions(RuleOptions(scale=1 / 60))
        assert "deriv(job:streammetrics_lag_seconds:max[5m]) > 0" in "\n".join(plain)
        assert "job:streammetrics_lag_seconds:max > 5\nand deriv(job:streammetrics_lag_seconds:max[5s]) > 0" in "\n".join(short)
        assert "job:streammetrics_final_quality:unexplained1h offset 1440s" in "\n".join(short)
        assert "> 0.25" in "\n".join(short)


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
        assert {inhibition.source for inhibition in INHIBITIONS} | {target for each in INHIBITIONS for target in each.targets} <= NAMES

    @pytest.mark.parametrize("inhibition", INHIBITIONS, ids=lambda inhibition: inhibition.source)
    def test_a_cause_fires_no_later_than_its_consequences(self, inhibition: Inhibition) -> None:
        """Otherwise the consequence pages first, and the cause pages too."""
        assert all(max(waits_ms(inhibition.source)) <= min(waits_ms(target)) for target in inhibition.targets)

    def test_no_alert_silences_itself_through_others(self) -> None:
        silences = {source: {target for each in INHIBITIONS if each.source == source for target in each.targets} for source in NAMES}

        def reached(name: str, seen: frozenset[str] = frozenset()) -> set[str]:
            return {target for next_ in silences[name] - seen for target in {next_, *reached(next_, seen | {next_})}}

        assert all(name not in reached(name) for name in NAMES)

    def test_no_other_alert_silences_a_regression(self) -> None:
        assert not [each for each in INHIBITIONS if "StreammetricsRankingRegressed" in each.targets]
