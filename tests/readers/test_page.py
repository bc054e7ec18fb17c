"""Every reader that ships has a row on the page of events, and the page names no other."""

from __future__ import annotations

import re

from streammetrics.wiring.decoders import shipped_readers
from tests.support.paths import ROOT


def test_the_page_has_a_row_for_each_reader_that_ships() -> None:
    page = (ROOT / "streammetrics" / "events" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`(\w+)`\]\(\.\./readers/(\w+)\.py\) \|", page, re.MULTILINE)
    assert sorted(name for name, _ in rows) == shipped_readers()
    assert all(name == file for name, file in rows)
