"""What is published: a wheel and an sdist that hold the whole package and say what they are."""

from __future__ import annotations

import re
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from streammetrics import __version__
from tests.deploy.tools import assert_clean, read_yaml
from tests.support.paths import ROOT

PACKAGE = ROOT / "streammetrics"
OWNER_AND_NAME = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"].removeprefix(
    "https://github.com/"
)
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
    copies = {f"{folder}/{path.name}" for folder in ("prometheus", "runbooks") for path in (ROOT / "deploy" / folder).iterdir()}
    dashboards = {f"grafana/{path.name}" for path in (ROOT / "grafana").glob("*.json")}
    assert names == IN_PACKAGE | {f"streammetrics/exporters/files/{name}" for name in ("glossary.md", *copies, *dashboards)}
    suffixes = {Path(name).suffix for name in names}
    assert {".lua", ".html", ".js", ".css", ".py"} <= suffixes
    assert "streammetrics/py.typed" in names


def test_the_sdist_holds_the_package_and_what_it_is_built_from(built: Path) -> None:
    with tarfile.open(built / f"streammetrics-{__version__}.tar.gz") as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert names >= IN_PACKAGE
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names


def test_the_description_on_the_index_has_only_absolute_links(wheel: zipfile.ZipFile) -> None:
    description = str(metadata(wheel).get_payload())
    links = re.findall(r"\]\(([^)]+)\)", description)
    assert len(links) > 10
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    (picture,) = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", description)
    assert picture == f"https://raw.githubusercontent.com/{OWNER_AND_NAME}/v{__version__}/.github/page.png"


def test_every_file_names_the_same_owner() -> None:
    """The one place that decides is `Repository` in pyproject.toml."""
    places = [
        ROOT / "pyproject.toml",
        ROOT / "README.md",
        ROOT / "deploy" / "Dockerfile",
        ROOT / "deploy" / "helm" / "streammetrics" / "Chart.yaml",
        ROOT / "deploy" / "prometheus" / "alerting_rules.yml",
    ]
    named = {
        path.name: set(re.findall(r"(?:github\.com|githubusercontent\.com)/([\w-]+/streammetrics)\b", path.read_text(encoding="utf-8")))
        for path in places
    }
    assert {name: owners for name, owners in named.items() if owners not in ({OWNER_AND_NAME}, set())} == {}
    assert named["alerting_rules.yml"] == named["Dockerfile"] == {OWNER_AND_NAME}
    assert read_yaml(ROOT / "deploy" / "helm" / "streammetrics" / "values.yaml")["image"]["repository"] == OWNER_AND_NAME


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = read_yaml(ROOT / "deploy" / "helm" / "streammetrics" / "Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    fields = metadata(wheel)
    assert fields["Name"] == "streammetrics"
    assert fields["License-Expression"] == "Apache-2.0"
    assert fields["Requires-Python"] == ">=3.11"
    assert {"codecs", "files"} <= set(fields.get_all("Provides-Extra", []))
    entry_points = wheel.read(f"streammetrics-{__version__}.dist-info/entry_points.txt").decode()
    assert "streammetrics = streammetrics.cli.main:main" in entry_points
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
