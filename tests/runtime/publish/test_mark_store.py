"""Tests of the marks that the processes of a namespace share."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from streammetrics.errors import StoreError
from streammetrics.reports.marks import Mark
from streammetrics.runtime.publish.mark_store import READ_SECONDS, MarkStore
from streammetrics.runtime.status import ProcessStatus
from tests.support.committed_state import Now


class SharedBlob:
    """One value in memory, which may be away."""

    def __init__(self) -> None:
        self.value: bytes | None = None
        self.is_away = False

    def read(self) -> bytes | None:
        if self.is_away:
            raise StoreError("Redis is away")
        return self.value

    def write(self, value: bytes) -> None:
        self.value = value

    def close(self) -> None:
        """Nothing is open."""


ONE, OTHER = Mark(1, "deploy", "a"), Mark(2, "deploy", "b")


def test_what_one_process_adds_another_one_shows() -> None:
    blob, now, mine, theirs = SharedBlob(), Now(0.0), ProcessStatus(), ProcessStatus()
    here, there = MarkStore(mine, now, blob), MarkStore(theirs, now, blob)
    here.refresh()
    there.add([ONE])
    assert (mine.marks, theirs.marks) == ((), (ONE,))
    now.seconds += READ_SECONDS
    here.refresh()
    assert mine.marks == (ONE,)
    here.add([OTHER])
    assert mine.marks == (ONE, OTHER)
    assert MarkStore(ProcessStatus(), now, blob).refresh() is None


def test_an_outage_keeps_the_marks_and_is_logged_once() -> None:
    blob, now, status = SharedBlob(), Now(0.0), ProcessStatus()
    store = MarkStore(status, now, blob)
    store.add([ONE])
    blob.is_away = True
    with capture_logs() as lines:
        for _ in range(3):
            store.refresh()
            now.seconds += READ_SECONDS
    assert [line["event"] for line in lines] == ["the marks cannot be read; reports go on"]
    assert status.marks == (ONE,)
    with pytest.raises(StoreError):
        store.add([OTHER])


def test_without_a_store_the_process_keeps_them() -> None:
    status = ProcessStatus()
    store = MarkStore(status, Now(0.0))
    store.add([ONE])
    store.refresh()
    store.add([OTHER])
    assert status.marks == (ONE, OTHER)
