"""Every alert has its page and every page its alert, with the sections of all; what a page names exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from deploy.prometheus import generate
from deploy.prometheus.table import ALERTS
from streammetrics.cli.main import main
from streammetrics.config import keys
from streammetrics.events.outcomes import names_of
from streammetrics.exporters.prometheus.series import SERIES
from tests.support.paths import ROOT

RUNBOOKS = ROOT / "deploy" / "runbooks"
PAGES = sorted(RUNBOOKS.glob("*.md"))
SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]
SETTINGS = {name.partition(".")[0] for name in keys()}
PARTS_OF_A_HISTOGRAM = {f"streammetrics_commit_seconds_{part}" for part in ("bucket", "sum", "count")}
PATHS = {"/metrics", "/healthz", "/readyz", "/api/report"}

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def commands(page: Path, program: str) -> list[list[str]]:
    """Every line of a block that runs a program, as words."""
    lines = re.findall(rf"^ {{7,}}{re.escape(program)} (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [shlex.split(line) for line in lines]


def test_alerts_and_pages_are_the_same() -> None:
    assert {page.stem for page in PAGES} == {alert.name for alert in ALERTS}


def test_all_pages_together_name_commands_settings_and_series() -> None:
    """Else the tests below would pass because they find nothing."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert sum(len(commands(page, "streammetrics")) for page in PAGES) >= 3
    assert len(re.findall(r"`(?:join|kafka|redis|worker)\.\w+", text)) > 30
    assert len(re.findall(r"streammetrics_\w+", text)) > 30


def test_the_page_of_refused_events_names_every_reason_why_a_good_event_is_refused() -> None:
    text = (RUNBOOKS / "StreammetricsEventsRefused.md").read_text(encoding="utf-8")
    assert [name for name in names_of("refused") if f"`{name}`" not in text] == []


@pages
def test_a_page_has_its_name_and_the_four_sections_each_with_something_in_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {page.stem}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert all(len(section.strip()) > 40 for section in re.split(r"^#.*$", text, flags=re.MULTILINE)[2:])


@pages
def test_every_command_of_ours_has_words_that_it_takes(page: Path) -> None:
    for name, *words in commands(page, "streammetrics"):
        main.commands[name].make_context(name, list(words), resilient_parsing=False)


@pages
def test_the_generator_is_called_with_words_that_it_takes(page: Path, tmp_path: Path) -> None:
    for line in re.findall(r"python -m deploy\.prometheus\.generate ([^`]+)`", page.read_text(encoding="utf-8")):
        assert line == "--help" or generate.main([*shlex.split(line), "--out", str(tmp_path)]) == 0


@pages
def test_every_setting_that_is_named_exists(page: Path) -> None:
    named = set(re.findall(rf"`((?:{'|'.join(sorted(SETTINGS))})\.[a-z_]+)`", page.read_text(encoding="utf-8")))
    assert named <= keys().keys()


@pages
def test_every_series_that_is_named_exists(page: Path) -> None:
    named = set(re.findall(r"\bstreammetrics_[a-z_]+", page.read_text(encoding="utf-8")))
    assert named <= SERIES.keys() | PARTS_OF_A_HISTOGRAM


@pages
def test_every_path_of_the_port_that_is_asked_exists(page: Path) -> None:
    assert set(re.findall(r"127\.0\.0\.1:9464(/\S*)", page.read_text(encoding="utf-8"))) <= PATHS


@pages
def test_every_other_alert_that_is_named_exists(page: Path) -> None:
    assert set(re.findall(r"\bStreammetrics\w+", page.read_text(encoding="utf-8"))) <= {alert.name for alert in ALERTS}
