"""Every verdict word is known wherever users look: terminal, page, dashboards, alerts, series help."""

from __future__ import annotations

import re

import pytest

from streammetrics.cli.output.verdict_tables import STYLES
from streammetrics.experiments.verdict import VERDICT_CODES, Word
from streammetrics.exporters.prometheus.series import SERIES
from tests.grafana.reading import committed, value_mappings
from tests.support.paths import ROOT
from tests.support.rules import ALERTS

STATIC = ROOT / "streammetrics" / "exporters" / "http" / "static"


@pytest.mark.parametrize("word", VERDICT_CODES)
def test_every_view_knows_the_word(word: Word) -> None:
    assert word in STYLES
    mappings = [
        options for options in value_mappings(committed("experiment")) if any(option["text"] == "regressed" for option in options.values())
    ]
    assert len(mappings) > 1
    assert {options[str(VERDICT_CODES[word])]["text"] for options in mappings} == {word}
    assert re.search(rf"\b{word}: \[", (STATIC / "verdicts.js").read_text(encoding="utf-8"))
    assert f"{VERDICT_CODES[word]} {word}" in SERIES["streammetrics_experiment_verdict"].help
    assert f"`{word}`" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("word", [word for word in VERDICT_CODES if word != "inconclusive"])
def test_pages_colour_the_word(word: Word) -> None:
    css = (STATIC / "page.css").read_text(encoding="utf-8")
    assert re.search(rf"\.{word}\b", css)


@pytest.mark.parametrize("word", [word for word, code in VERDICT_CODES.items() if code < 0])
def test_every_bad_word_has_an_alert_and_only_regressed_pages(word: Word) -> None:
    condition = f"job_experiment:streammetrics_experiment_verdict:min == {VERDICT_CODES[word]}"
    severities = {alert.severity for alert in ALERTS if condition in alert.expression}
    assert severities == ({"critical", "warning"} if word == "regressed" else {"warning"})
