"""The guide and the runbook name commands, options and settings that there are, and systemd units and files by their names."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from streammetrics.cli.main import command_named
from streammetrics.config import keys
from tests.deploy.tools import DEPLOY

PAGES = sorted(DEPLOY.glob("*.md"))
CHART = DEPLOY / "helm" / "streammetrics" / "README.md"
SECTIONS = {name.partition(".")[0] for name in keys()}


def commands(page: Path) -> list[list[str]]:
    """Every `streammetrics …` line of an indented block or between backticks, as words."""
    text = page.read_text(encoding="utf-8")
    indented = re.findall(r"^ {4,}(?:\$ )?streammetrics ((?!:).+)$", text, re.MULTILINE)
    quoted = re.findall(r"`streammetrics ([^`]+)`", text)
    return [shlex.split(line.partition(" | ")[0].partition("  #")[0]) for line in [*indented, *quoted]]


@pytest.mark.parametrize("page", [*PAGES, CHART], ids=lambda page: str(page.relative_to(DEPLOY)))
def test_every_command_of_ours_has_words_that_it_takes(page: Path) -> None:
    for name, *words in commands(page):
        command: click.Command = command_named(name)
        rest = list(words)
        while isinstance(command, click.Group) and rest:
            command = command.commands[rest.pop(0)]
        if isinstance(command, click.Group):  # its name in a sentence
            continue
        try:
            command.make_context(name, rest, resilient_parsing=False)
        except click.MissingParameter:
            assert not rest, f"{name} {words} lacks what it needs"  # `streammetrics replay` as a name in a sentence


def test_commands_are_found() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DEPLOY)))
def test_every_setting_that_is_named_exists(page: Path) -> None:
    """The chart's page is left out: its values have names of the same form, and a test of their own."""
    named = set(re.findall(r"`((?:" + "|".join(SECTIONS) + r")\.[a-z_]+)", page.read_text(encoding="utf-8")))
    assert named - keys().keys() <= {"worker.replicas"}


def test_every_unit_that_is_named_exists() -> None:
    units = {path.stem for path in (DEPLOY / "systemd").glob("*.service")}
    for page in [*PAGES, CHART]:
        named = re.findall(r"\b(streammetrics-(?:worker@|exporter))(?=[\d'* ])", page.read_text(encoding="utf-8"))
        assert set(named) <= units


def test_every_file_of_this_folder_is_in_the_guide() -> None:
    text = (DEPLOY / "README.md").read_text(encoding="utf-8")
    files = {path.name for path in DEPLOY.iterdir() if path.name not in {"README.md", "compose", "ubi.toml", "prometheus"}}
    linked = {link.partition("/")[0] for link in re.findall(r"\]\(([^)#]+)\)", text)}
    assert files <= linked | {"prometheus"}
