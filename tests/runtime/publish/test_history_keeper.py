"""Every report is shown, snapshots are shared over restarts and processes, and a failing blob store stops nothing."""

from __future__ import annotations

from dataclasses import replace

from streammetrics.errors import StoreError
from streammetrics.reports.history import SNAPSHOT_MS, History, HistorySnapshot
from streammetrics.reports.report import Report
from streammetrics.runtime.publish.history_keeper import HistoryKeeper, decode_history, encode_history
from tests.support.committed_state import START_MS, two_variants
from tests.support.experiment_samples import experiment

PLAIN = two_variants().report()
WORSE = experiment({"control": 0.5, "treatment": 0.4})


class FailingBlob:
    """A blob store in memory that cannot be reached while `unreachable` is set."""

    def __init__(self) -> None:
        self.value: bytes | None = None
        self.writes = 0
        self.unreachable = False

    def read(self) -> bytes | None:
        if self.unreachable:
            raise StoreError("the blob store is unreachable")
        return self.value

    def write(self, value: bytes) -> None:
        self.value, self.writes = value, self.writes + 1

    def close(self) -> None:
        """Do nothing."""


def report_at(minute: int, *names: str) -> Report:
    experiments = tuple(replace(WORSE, experiment=name) for name in names or ("ranker",))
    return replace(PLAIN, experiments=experiments, entered_ms=START_MS + minute * SNAPSHOT_MS)


def times(history: History, name: str = "ranker") -> list[int]:
    return [(at - START_MS) // SNAPSHOT_MS for at, _ in history.of(name, "start").snapshots.kept]


def test_every_report_is_shown_with_the_snapshots_so_far() -> None:
    published: list[tuple[Report, History]] = []
    keeper = HistoryKeeper(lambda report, history: published.append((report, history)))
    reports = [replace(PLAIN, entered_ms=None), report_at(0), report_at(0), report_at(2)]
    for report in reports:
        keeper.on_report(report)
    assert [report for report, _ in published] == reports
    assert [times(history) for _, history in published] == [[], [0], [0], [0, 2]]


def test_a_new_process_computes_only_what_the_stored_history_lacks() -> None:
    asked: list[tuple[int, int]] = []

    def earlier(name: str, after_ms: int, before_ms: int) -> list[tuple[int, HistorySnapshot]]:
        asked.append(((after_ms - START_MS) // SNAPSHOT_MS, (before_ms - START_MS) // SNAPSHOT_MS))
        at_ms = START_MS + 5 * SNAPSHOT_MS
        return [(at_ms, HistorySnapshot(None, 7, ()))] if after_ms < at_ms < before_ms else []

    def late(minute: int) -> Report:
        report = report_at(minute)
        experiments = tuple(replace(experiment, from_ms=START_MS - 9 * SNAPSHOT_MS) for experiment in report.experiments)
        return replace(report, experiments=experiments, earlier=earlier)

    blob, reports = FailingBlob(), []
    for minutes in ((0, 1), (9, 10)):
        keeper = HistoryKeeper(lambda report, history: reports.append(history), blob)
        for minute in minutes:
            keeper.on_report(late(minute))
    assert asked == [(-9, 0), (1, 9)]
    assert times(reports[-1]) == [0, 1, 5, 9, 10]


def test_snapshots_survive_a_restart_and_are_written_only_when_one_is_new() -> None:
    blob, reports = FailingBlob(), []
    first = HistoryKeeper(lambda report, history: reports.append(history), blob)
    for minute in (0, 0, 1, 1):
        first.on_report(report_at(minute))
    assert blob.writes == 2
    HistoryKeeper(lambda report, history: reports.append(history), blob).on_report(report_at(5))
    assert times(reports[-1]) == [0, 1, 5]


def test_two_processes_merge_their_snapshots() -> None:
    blob = FailingBlob()
    one, other = (HistoryKeeper(lambda report, history: None, blob) for _ in range(2))
    for minute in range(6):
        (one, other)[minute % 2].on_report(report_at(minute))
    assert times(decode_history(blob.value)) == [0, 1, 2, 3, 4, 5]


def test_an_ended_experiment_is_removed_from_the_blob() -> None:
    blob = FailingBlob()
    HistoryKeeper(lambda report, history: None, blob).on_report(report_at(0, "old", "ranker"))
    HistoryKeeper(lambda report, history: None, blob).on_report(report_at(1))
    assert [trail.experiment for trail in decode_history(blob.value).series] == ["ranker"]


def test_snapshots_of_an_earlier_run_are_removed_even_if_no_process_saw_its_end() -> None:
    blob, reports = FailingBlob(), []
    HistoryKeeper(lambda report, history: None, blob).on_report(report_at(0))
    later = report_at(1_000)
    later = replace(
        later, experiments=tuple(replace(experiment, known_from_ms=START_MS + 900 * SNAPSHOT_MS) for experiment in later.experiments)
    )
    HistoryKeeper(lambda report, history: reports.append(history), blob).on_report(later)
    assert times(reports[-1]) == times(decode_history(blob.value)) == [1_000]


def test_an_unreachable_blob_store_stops_no_report_and_loses_no_snapshot() -> None:
    blob, reports = FailingBlob(), []
    keeper = HistoryKeeper(lambda report, history: reports.append(history), blob)
    blob.unreachable = True
    keeper.on_report(report_at(0))
    keeper.on_report(report_at(1))
    assert (len(reports), blob.value) == (2, None)
    blob.unreachable = False
    keeper.on_report(report_at(2))
    assert times(decode_history(blob.value)) == [0, 1, 2]


def test_a_history_of_another_version_is_replaced() -> None:
    blob = FailingBlob()
    for left in (b"no json", b'{"version": 2}', b"[1]"):
        blob.value = left
        HistoryKeeper(lambda report, history: None, blob).on_report(report_at(0))
        assert times(decode_history(blob.value)) == [0]


def test_a_history_is_decoded_from_its_bytes() -> None:
    history = History().add(START_MS, [WORSE])
    assert decode_history(encode_history(history)) == history
    assert decode_history(None) == History()
