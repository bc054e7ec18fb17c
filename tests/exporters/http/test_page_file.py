"""Tests of the page as a file: it is self-contained, and names are never markup. The browser tests open it."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from streammetrics.exporters.http.page_file import page_file


class Read(HTMLParser):
    """Tags with their attributes, and the text of each script and style."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(content.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style", "title") and data.strip():
            self.texts.append((self.tags[-1][0], data))


def test_the_page_loads_nothing_and_its_policy_allows_its_own_scripts_only() -> None:
    content = page_file({"experiments": []}, "Experiments")
    read = Read(content)
    attributes = [(name, value) for _, each in read.tags for name, value in each.items()]
    assert "src" not in dict(attributes)
    assert {value for name, value in attributes if name == "href"} == {"#content", "data:,"}
    assert not [name for name, _ in attributes if name == "style" or name.startswith("on")]
    assert re.search(rb"url\(|@import", content) is None
    (policy,) = (each["content"] or "" for tag, each in read.tags if each.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    hashes = [(tag, f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'") for tag, text in read.texts]
    allowed = [value for tag, value in hashes if tag in ("script", "style") and value in policy]
    assert len(allowed) == 3, "the library, the page and the style, but not the report"


@pytest.mark.parametrize("name", ["</script><script>alert(1)</script>", "<!--", '"><img src=x onerror=alert(1)>', "a&amp;b", "\u2028"])
def test_names_are_never_markup(name: str) -> None:
    plain = Read(page_file({"experiments": []}, "x"))
    read = Read(page_file({"experiments": [{"experiment": name}], "where": name}, name))
    assert [tag for tag, _ in read.tags] == [tag for tag, _ in plain.tags]
    inside = next(json.loads(text) for tag, text in read.texts if tag == "script")
    assert inside == {"experiments": [{"experiment": name}], "where": name}


def test_a_title_has_no_control_characters() -> None:
    assert b"<title>a\xef\xbf\xbdb</title>" in page_file({"experiments": []}, "a\u202eb")
