"""Tests of `config`: the files that it prints can be used."""

from __future__ import annotations

from pathlib import Path

from streammetrics.config import Settings, load
from streammetrics.config.reference import COMMON, MINIMAL
from tests.support.command_line import called
from tests.support.paths import ROOT


def test_the_minimal_file_is_short_and_valid_and_the_one_of_the_readme(tmp_path: Path) -> None:
    printed = called("config", "--minimal").stdout
    lines = [line for line in printed.splitlines() if line]
    assert len(lines) <= 8
    path = tmp_path / "streammetrics.toml"
    path.write_text(printed)
    settings = load(path, {}, {}).settings
    assert (settings.kafka.topics, settings.kafka.dead_letter_topic) == (("impressions", "feedback"), "streammetrics-dead-letters")
    readme_lines = [line.strip() for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()]
    assert "\n".join(line.strip() for line in printed.splitlines()) in "\n".join(readme_lines)


def test_the_reference_file_is_the_committed_one() -> None:
    assert called("config", "--reference", "--all").stdout == (ROOT / "deploy" / "streammetrics.toml").read_text(encoding="utf-8")


def test_the_short_reference_has_the_settings_that_people_change_each_with_when(tmp_path: Path) -> None:
    printed = called("config", "--reference").stdout
    path = tmp_path / "streammetrics.toml"
    path.write_text(printed)
    loaded = load(path, {}, {})
    assert loaded.settings == Settings()
    assert {name for name, origin in loaded.origins.items() if origin != "default"} == set(COMMON)
    assert printed.count("When to change it: ") == len(COMMON) == 28


def test_the_minimal_settings_are_among_those_that_people_change() -> None:
    assert set(MINIMAL) <= set(COMMON)
    assert len(MINIMAL) == 5


def test_all_goes_with_the_reference_only() -> None:
    done = called("config", "--minimal", "--all")
    assert (done.returncode, "--all goes with --reference" in done.stderr) == (2, True)


def test_one_of_the_two_must_be_chosen() -> None:
    done = called("config")
    assert done.returncode == 2
    assert "choose --minimal, --reader or --reference" in done.stderr
