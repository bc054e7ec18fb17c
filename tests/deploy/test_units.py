"""The systemd units: verified by systemd itself, hardened, and starting what the product has."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from streammetrics.cli.main import command_named
from tests.deploy.tools import DEPLOY, assert_clean, program

UNITS = {
    "streammetrics-worker@.service": "streammetrics-worker@9471.service",
    "streammetrics-exporter.service": "streammetrics-exporter.service",
}
EXPOSURE_TENTHS_MAX = 20
"""`systemd-analyze security` rates from 0 (nothing reachable) to 100 (a service without any of this: 96)."""


def analyze() -> str:
    return program("systemd-analyze", "Debian's package systemd")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units as they would lie on a machine where the program is where this one is."""
    command = Path(sys.executable).parent / "streammetrics"
    assert os.access(command, os.X_OK)
    for name in UNITS:
        text = (DEPLOY / "systemd" / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("/opt/streammetrics/bin/streammetrics", str(command)), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("unit", UNITS.values())
def test_systemd_finds_no_fault(installed: Path, unit: str) -> None:
    assert_clean([analyze(), "verify", f"./{unit}"], cwd=installed)


@pytest.mark.parametrize("name", UNITS)
def test_the_units_expose_little(name: str) -> None:
    assert_clean([analyze(), "security", "--offline=yes", f"--threshold={EXPOSURE_TENTHS_MAX}", "--no-pager", DEPLOY / "systemd" / name])


@pytest.mark.parametrize("name", UNITS)
def test_the_units_start_commands_that_the_product_has(name: str) -> None:
    text = (DEPLOY / "systemd" / name).read_text(encoding="utf-8").replace("%i", "9471")
    started = re.findall(r"^ExecStart(?:Pre)?=\S+/streammetrics (.+)$", text, re.MULTILINE)
    assert len(started) == 2
    for command, *words in map(shlex.split, started):
        command_named(command).make_context(command, words)
