"""The short names of warnings are labels in Prometheus, so people look them up."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

PACKAGE = ROOT / "streammetrics"
SOURCES = [
    *(PACKAGE / "experiments").glob("*.py"),
    PACKAGE / "reports" / "merged_experiments.py",
]
ONE_LIST = "one list per user"
"""Made in `reports.experiment_warnings`, beside those of the stream."""


def test_the_page_explains_each_warning_of_an_experiment_and_no_other() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES if path.name != "words.py")
    made = {*re.findall(r'DataWarning\("([^"]+)"', text), ONE_LIST}
    page = (PACKAGE / "experiments" / "README.md").read_text(encoding="utf-8")
    table = page.partition("| warning | what it says |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])}
    assert named == made
