"""The first letter of each topic and reason is remembered; all are passed on."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from streammetrics.connectors import dead_letters
from streammetrics.connectors.dead_letters import DeadLetter, FirstRefusals
from streammetrics.connectors.source import Input
from streammetrics.errors import SourceError


class Kept:
    """A sink that keeps letters, or fails."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []
        self.fails = self.closed = False

    def write(self, letters: Iterable[DeadLetter]) -> None:
        if self.fails:
            raise SourceError("away")
        self.letters.extend(letters)

    def close(self) -> None:
        self.closed = True


def letter(reason: str, offset: int, topic: str = "shop") -> DeadLetter:
    return DeadLetter(reason, f"{reason} of {offset}", Input(topic, 0), offset, b"raw")


LETTERS = (letter("bad_ts", 3), letter("bad_id", 4), letter("bad_ts", 5), letter("bad_ts", 1, "carts"))


def test_each_topic_and_reason_is_noted_once() -> None:
    kept, noted = Kept(), list[DeadLetter]()
    sink = FirstRefusals(kept, noted.append)
    sink.write(iter(LETTERS[:2]))
    sink.write(LETTERS[2:])
    assert kept.letters == list(LETTERS)
    assert noted == [LETTERS[0], LETTERS[1], LETTERS[3]]
    assert {key: letter.offset for key, letter in sink.letters.items()} == {
        ("shop", "bad_ts"): 3,
        ("shop", "bad_id"): 4,
        ("carts", "bad_ts"): 1,
    }
    assert {letter.value for letter in sink.letters.values()} == {b"raw"}


def test_only_the_beginning_of_a_remembered_value_is_kept() -> None:
    sink = FirstRefusals(Kept())
    sink.write([letter("bad_ts", 3)._replace(value=bytes(1_000)), letter("empty", 4)._replace(value=None)])
    assert [kept.value for kept in sink.letters.values()] == [bytes(64), b""]


def test_a_letter_is_noted_after_it_is_written() -> None:
    kept, noted = Kept(), list[DeadLetter]()
    kept.fails = True
    sink = FirstRefusals(kept, noted.append)
    with pytest.raises(SourceError):
        sink.write(LETTERS)
    assert noted == []
    kept.fails = False
    sink.write(LETTERS)
    assert len(noted) == 3


def test_the_number_of_remembered_pairs_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "REFUSALS_MAX", 1)
    noted: list[DeadLetter] = []
    FirstRefusals(Kept(), noted.append).write(LETTERS)
    assert noted == [LETTERS[0]]


def test_the_sink_is_closed() -> None:
    kept = Kept()
    FirstRefusals(kept).close()
    assert kept.closed
