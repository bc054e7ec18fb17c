"""The reader of the configuration: found beside it, loaded once, and part of the rules that change numbers."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from streammetrics.errors import ConfigError, MalformedEvent
from streammetrics.events import Feedback
from streammetrics.wiring.decoders import (
    build_decoder,
    build_topic_decoders,
    decoding_settings,
    load_reader,
    reader_source,
    shipped_readers,
    with_sources,
)
from tests.support.settings import by_flags, configured

READER = """
from dataclasses import dataclass

from streammetrics.readers import Record


@dataclass
class Click:
    user: str
    item: str


def read(record: Record):
    click = Click(*record.value.decode().split())
    yield {"type": "feedback", "user_id": click.user, "ts": 5, "item_id": click.item, "action": "click"}
"""
BY_TOPIC = """
[events.reader]
clicks = "reader.py:read"
lists = "native"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reader.py").write_text(READER)
    return tmp_path


def events_of(settings: Any, topic: str, value: bytes) -> list[Any]:
    return [event.reason if isinstance(event, MalformedEvent) else event for event in build_decoder(settings, topic)(value)]


def problem_of(settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        build_decoder(settings, "clicks")
    (problem,) = caught.value.problems
    assert problem.key == "events.reader"
    return problem.allowed


class TestPlaces:
    def test_a_file_beside_the_configuration(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir("/")
        settings = configured(folder, '[events]\nreader = "reader.py:read"').settings
        assert events_of(settings, "clicks", b"u7 b") == [Feedback("u7", 5, "b", "click")]

    def test_a_relative_path_by_a_flag_is_from_the_working_directory(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(folder)
        assert events_of(by_flags({"events.reader": "reader.py:read"}).settings, "", b"u7 b") == [Feedback("u7", 5, "b", "click")]

    def test_an_installed_module(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(folder)
        (folder / "a_package_of_readers.py").write_text(READER)
        settings = by_flags({"events.reader": "a_package_of_readers:read"}).settings
        assert events_of(settings, "", b"u7 b") == [Feedback("u7", 5, "b", "click")]

    def test_whole_numbers_that_a_reader_yields_as_ids_are_their_decimal_text(self, folder: Path) -> None:
        (folder / "reader.py").write_text(READER.replace("click.user,", "2**63 + 1,"))
        settings = configured(folder, '[events]\nreader = "reader.py:read"').settings
        assert events_of(settings, "", b"u7 b") == [Feedback("9223372036854775809", 5, "b", "click")]

    def test_readers_by_topic(self, folder: Path) -> None:
        settings = configured(folder, BY_TOPIC).settings
        assert events_of(settings, "clicks", b"u7 b") == [Feedback("u7", 5, "b", "click")]
        assert events_of(settings, "logs/clicks.2026.txt", b"u7 b") == [Feedback("u7", 5, "b", "click")]
        for topic in ("lists", "others"):
            assert events_of(settings, topic, b"u7 b") == ["bad_json"]
        assert build_topic_decoders(settings, ["clicks", "lists"]).keys() == {"clicks", "lists"}


class TestProblems:
    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            ("def read(record:\n", "cannot be loaded: SyntaxError: '(' was never closed, reader.py:1"),
            (
                "import json\n\nimport nothing_like_it\n",
                "cannot be loaded: ModuleNotFoundError: No module named 'nothing_like_it', reader.py:3",
            ),
            ("x = 1\nexit(3)\n", "cannot be loaded: SystemExit: 3, reader.py:2"),
            ("def other(record): ...\n", "cannot be loaded: AttributeError: "),
            ("read = 5\n", "cannot be loaded: TypeError: read is no function"),
        ],
    )
    def test_a_file_that_cannot_be_used_says_where(self, tmp_path: Path, text: str, rule: str) -> None:
        (tmp_path / "reader.py").write_text(text)
        assert problem_of(configured(tmp_path, '[events]\nreader = "reader.py:read"').settings).startswith(rule)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        settings = configured(tmp_path, '[events]\nreader = "readr.py:read"').settings
        expected = "cannot be read: No such file or directory; a path is taken from the folder of the configuration"
        assert problem_of(settings) == expected

    @pytest.mark.parametrize("name", ["segmnt", "times", "reader.py", "__init__"])
    def test_a_name_that_does_not_ship(self, name: str) -> None:
        rule = problem_of(by_flags({"events.reader": name}).settings)
        assert rule.startswith("is no reader; write reader.py:read, package.module:read, or one of ")

    def test_a_module_that_is_not_installed(self) -> None:
        rule = problem_of(by_flags({"events.reader": "nothing_like_it:read"}).settings)
        assert rule == "there is no module nothing_like_it; install it, or name a file that ends in .py"


class TestDigest:
    def test_the_rules_have_the_digest_of_the_file_and_not_its_path(self, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
        other = tmp_path_factory.mktemp("other")
        (other / "reader.py").write_text(READER)
        here, there = (decoding_settings(configured(place, '[events]\nreader = "reader.py:read"').settings) for place in (folder, other))
        assert here == there
        assert str(folder) not in str(here)
        (other / "reader.py").write_text(READER + "\n")
        assert decoding_settings(configured(other, '[events]\nreader = "reader.py:read"').settings) != here

    def test_by_topic(self, folder: Path) -> None:
        digests = decoding_settings(configured(folder, BY_TOPIC).settings)["reader"]
        source = reader_source(configured(folder, BY_TOPIC).settings, "clicks")
        assert source is not None
        assert digests == {"clicks": source.digest, "lists": "native"}

    def test_native_events_have_none(self) -> None:
        assert "reader" not in decoding_settings(by_flags({}).settings)


def test_a_file_runs_once(folder: Path) -> None:
    source = reader_source(configured(folder, '[events]\nreader = "reader.py:read"').settings, "")
    assert source is not None
    assert load_reader(source) is load_reader(source)


def test_every_reader_that_ships_can_be_loaded() -> None:
    for name in shipped_readers():
        source = reader_source(by_flags({"events.reader": name}).settings, "")
        assert source is not None
        assert callable(load_reader(source))


def test_settings_for_other_machines_bring_the_source_of_their_readers(folder: Path) -> None:
    settings = configured(folder, BY_TOPIC).settings
    sent = pickle.dumps(with_sources(settings))
    expected = decoding_settings(settings)
    (folder / "reader.py").unlink()
    received = pickle.loads(sent)
    assert decoding_settings(received) == expected
    assert events_of(received, "clicks", b"u7 b") == [Feedback("u7", 5, "b", "click")]
    assert events_of(received, "lists", b"u7 b") == ["bad_json"]
