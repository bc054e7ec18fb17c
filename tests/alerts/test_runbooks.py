"""Every alert has a runbook page with the same sections. Commands, settings and series named on a page exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from streammetrics.cli.main import command_named
from streammetrics.config import keys
from streammetrics.events.outcomes import names_of
from streammetrics.exporters.prometheus.series import SERIES
from tests.grafana.reading import selectors
from tests.support.paths import ROOT
from tests.support.rules import ALERTS
from tests.support.tables import for_each

RUNBOOKS = ROOT / "deploy" / "runbooks"
PAGES = sorted(RUNBOOKS.glob("*.md"))
SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]
SETTINGS = {name.partition(".")[0] for name in keys()}
PARTS_OF_A_HISTOGRAM = {f"streammetrics_commit_seconds_{part}" for part in ("bucket", "sum", "count")}
OF_THE_SCRAPE = {"job", "instance"}
PATHS = {"/metrics", "/healthz", "/readyz", "/api/report"}

pages = for_each(PAGES, lambda page: page.stem)


def commands(page: Path, program: str) -> list[list[str]]:
    """Return the command lines of a program in the code blocks, split into words."""
    lines = re.findall(rf"^ {{7,}}{re.escape(program)} (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [shlex.split(line) for line in lines]


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    assert {page.stem for page in PAGES} == {alert.name for alert in ALERTS}


def test_the_pages_together_name_many_commands_settings_and_series() -> None:
    """Otherwise the tests below could pass because they find nothing."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert sum(len(commands(page, "streammetrics")) for page in PAGES) >= 3
    assert len(re.findall(r"`(?:join|kafka|redis|worker)\.\w+", text)) > 30
    assert len(re.findall(r"streammetrics_\w+", text)) > 30


def test_the_page_of_refused_events_names_every_reason_for_well_formed_events() -> None:
    text = (RUNBOOKS / "StreammetricsEventsRefused.md").read_text(encoding="utf-8")
    assert [name for name in names_of("refused") if f"`{name}`" not in text] == []


@pages
def test_a_page_says_who_reads_it_and_what_happened_and_then_has_four_sections(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.match(rf"# {page.stem}\n\nFor the (?:engineer|owner)[^.]*\. [^.]+\.\n", text)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert all(len(section.strip()) > 40 for section in re.split(r"^#.*$", text, flags=re.MULTILINE)[2:])


@pages
def test_every_streammetrics_command_has_valid_options(page: Path) -> None:
    for name, *options in commands(page, "streammetrics"):
        command_named(name).make_context(name, list(options), resilient_parsing=False)


@pages
def test_every_named_setting_exists(page: Path) -> None:
    named = set(re.findall(rf"`((?:{'|'.join(sorted(SETTINGS))})\.[a-z_]+)`", page.read_text(encoding="utf-8")))
    assert named <= keys().keys()


@pages
def test_every_named_series_exists(page: Path) -> None:
    named = set(re.findall(r"\bstreammetrics_[a-z_]+", page.read_text(encoding="utf-8")))
    assert named <= SERIES.keys() | PARTS_OF_A_HISTOGRAM


@pages
def test_every_named_path_of_the_port_exists(page: Path) -> None:
    assert set(re.findall(r"127\.0\.0\.1:9464(/\S*)", page.read_text(encoding="utf-8"))) <= PATHS


@pages
def test_every_named_alert_exists(page: Path) -> None:
    assert set(re.findall(r"\bStreammetrics\w+", page.read_text(encoding="utf-8"))) <= {alert.name for alert in ALERTS}


def queries(page: Path) -> list[str]:
    """Return the PromQL queries in the code blocks."""
    lines = re.findall(r"^ {7,}(\S.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [line for line in lines if "streammetrics_" in line and not line.startswith("curl ")]


@pages
def test_every_query_is_valid_and_asks_for_labels_that_its_series_have(page: Path) -> None:
    for query in queries(page):
        for selector in selectors(query):
            series = SERIES.get(selector.name) or SERIES[re.sub(r"_(bucket|sum|count)$", "", selector.name)]
            asked = {matcher.name for matcher in selector.matchers.matchers} - {"__name__", *OF_THE_SCRAPE}
            assert asked <= set(series.labels), f"{query}: {series.name} has the labels {series.labels}"


@pages
def test_no_page_sends_the_reader_through_a_whole_report_in_json(page: Path) -> None:
    assert not re.search(r"curl .*/api/report", page.read_text(encoding="utf-8"))


@pages
def test_a_command_reads_the_configuration_that_the_service_reads(page: Path) -> None:
    for name, *options in commands(page, "streammetrics"):
        assert {"--config", "--url"} & set(options), f"{name} without --config reads the defaults"
