"""What is published: a wheel and an sdist that hold the whole package and say what they are."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from streammetrics import __version__
from tests.deploy.tools import assert_clean
from tests.support.paths import ROOT

PACKAGE = ROOT / "streammetrics"
IN_PACKAGE = {
    f"streammetrics/{path.relative_to(PACKAGE)}"
    for path in PACKAGE.rglob("*")
    if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".md"
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, and the wheel built from it, which is how both are published."""
    out = tmp_path_factory.mktemp("dist")
    assert_clean([sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT])
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(built / f"streammetrics-{__version__}-py3-none-any.whl") as opened:
        yield opened


def metadata(wheel: zipfile.ZipFile) -> Message:
    return Parser().parsestr(wheel.read(f"streammetrics-{__version__}.dist-info/METADATA").decode())


def test_the_wheel_holds_every_file_of_the_package_but_its_notes_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == IN_PACKAGE
    suffixes = {Path(name).suffix for name in names}
    assert {".lua", ".html", ".js", ".css", ".py"} <= suffixes
    assert "streammetrics/py.typed" in names


def test_the_sdist_holds_the_package_and_what_it_is_built_from(built: Path) -> None:
    with tarfile.open(built / f"streammetrics-{__version__}.tar.gz") as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert names >= IN_PACKAGE
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    fields = metadata(wheel)
    assert fields["Name"] == "streammetrics"
    assert fields["License-Expression"] == "Apache-2.0"
    assert fields["Requires-Python"] == ">=3.11"
    assert {"codecs", "files"} <= set(fields.get_all("Provides-Extra", []))
    entry_points = wheel.read(f"streammetrics-{__version__}.dist-info/entry_points.txt").decode()
    assert "streammetrics = streammetrics.cli.main:main" in entry_points
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
