"""The HTTP port from the client's side: a real server on a free port, and real connections."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection
from importlib import resources
from urllib.parse import urlsplit

import pytest

from streammetrics.connectors.source import Input
from streammetrics.errors import ConfigError
from streammetrics.exporters.http.answers import STUCK_SECONDS, HttpAnswers
from streammetrics.exporters.http.routes import SCRIPTS
from streammetrics.exporters.http.server import HEADER_BYTES_MAX, HttpServer
from streammetrics.exporters.prometheus.exposition import Exposition
from streammetrics.reports.freshness import EXAMPLES, FirstEvents
from streammetrics.reports.history import History
from streammetrics.reports.published import plain, published
from streammetrics.runtime.retry import Trouble
from streammetrics.runtime.status import ProcessStatus, Standstill
from tests.support.committed_state import START_MS, Now, Pipeline, served, shown, two_variants
from tests.support.experiment_samples import experiment
from tests.support.sockets import read_until_closed

PAGE_FILES = ("/", *(f"/{name}" for name in SCRIPTS), "/page.css")
PATHS = (*PAGE_FILES, "/metrics", "/healthz", "/readyz", "/api/report", "/api/pulse")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Message
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass(slots=True)
class Port:
    """Served answers with their process status, clock and pipeline."""

    base: str
    answers: HttpAnswers
    status: ProcessStatus
    now: Now
    pipeline: Pipeline

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        connection = HTTPConnection(urlsplit(self.base).netloc, timeout=10)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def show(self) -> None:
        self.answers.show(self.pipeline.report())


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return two_variants()


def port_of(pipeline: Pipeline, *, loop: bool = True, publishes: bool = True) -> Iterator[Port]:
    status, now = ProcessStatus(started_seconds=1_000.0), Now(1_000.0)
    answers = HttpAnswers(pipeline.exposition(status, loop=loop), now, publishes=publishes)
    with served(answers) as base:
        yield Port(base, answers, status, now, pipeline)


@pytest.fixture
def port(pipeline: Pipeline) -> Iterator[Port]:
    """A process that consumes and publishes."""
    yield from port_of(pipeline)


@pytest.fixture(scope="module")
def still_port(pipeline: Pipeline) -> Iterator[Port]:
    """The same, shared by tests that do not change it."""
    yield from port_of(pipeline)


@pytest.fixture
def exporter_port(pipeline: Pipeline) -> Iterator[Port]:
    """A process that only publishes."""
    yield from port_of(pipeline, loop=False)


@pytest.fixture
def empty_port() -> Iterator[Port]:
    """A process whose topics are empty."""
    pipeline, status, now = Pipeline(), ProcessStatus(started_seconds=1_000.0, ready=True), Now(1_000.0)
    answers = HttpAnswers(pipeline.exposition(status), now, first_events=FirstEvents(("impressions", "feedback")))
    with served(answers) as base:
        yield Port(base, answers, status, now, pipeline)


@pytest.fixture
def worker_port(pipeline: Pipeline) -> Iterator[Port]:
    """A process that only consumes."""
    yield from port_of(pipeline, publishes=False)


class TestMetrics:
    def test_metrics_are_served_in_the_text_format(self, port: Port) -> None:
        port.show()
        answer = port.ask("/metrics")
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert 'streammetrics_ndcg{experiment="ranker",k="10",segments="",variant="control",window="5m"} 0.25\n' in answer.text

    def test_a_scraper_can_request_openmetrics(self, port: Port) -> None:
        answer = port.ask("/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0,*/*;q=0.1"})
        assert answer.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert answer.text.endswith("# EOF\n")

    def test_an_invalid_accept_header_gets_the_text_format(self, port: Port) -> None:
        assert port.ask("/metrics", headers={"Accept": "application/openmetrics-text;version=x"}).status == 200

    def test_metrics_exist_before_the_first_report(self, port: Port) -> None:
        assert "streammetrics_build_info" in port.ask("/metrics").text


class TestHealth:
    def test_a_working_loop_is_healthy(self, port: Port) -> None:
        port.now.seconds += 1_000
        port.status.beat_seconds = port.now.seconds - STUCK_SECONDS
        assert port.ask("/healthz").status == 200

    def test_a_hanging_loop_is_unhealthy_with_its_duration(self, port: Port) -> None:
        port.status.beat_seconds = port.now.seconds
        port.now.seconds += STUCK_SECONDS + 1
        answer = port.ask("/healthz")
        assert (answer.status, answer.text) == (503, "loop: no turn for 31 s\n")

    def test_a_starting_loop_has_the_same_time(self, port: Port) -> None:
        assert port.ask("/healthz").status == 200
        port.now.seconds += STUCK_SECONDS + 1
        assert port.ask("/healthz").status == 503

    def test_the_process_is_healthy_without_kafka_and_redis(self, port: Port) -> None:
        port.status.source_trouble = port.status.store_trouble = port.status.publish_trouble = Trouble(0.0, 9, "gone")
        assert port.ask("/healthz").status == 200

    def test_a_process_without_a_loop_is_healthy(self, exporter_port: Port) -> None:
        exporter_port.now.seconds += 10_000
        assert exporter_port.ask("/healthz").status == 200


class TestReadiness:
    def test_a_process_with_claimed_tasks_and_a_report_is_ready(self, port: Port) -> None:
        port.status.ready = True
        port.show()
        assert (port.ask("/readyz").status, port.ask("/readyz").text) == (200, "ok\n")

    def test_the_response_lists_what_is_missing(self, port: Port) -> None:
        answer = port.ask("/readyz")
        assert answer.status == 503
        assert [line.partition(":")[0] for line in answer.text.splitlines()] == ["worker", "publisher"]

    def test_problems_are_shown_with_cause_and_duration(self, port: Port) -> None:
        port.show()
        port.status.source_trouble = Trouble(port.now.seconds - 12, 5, "no broker answers at b:9092")
        port.status.store_trouble = Trouble(port.now.seconds - 3, 2, "connection\nrefused")
        port.status.publish_trouble = Trouble(port.now.seconds, 1, "timeout")
        answer = port.ask("/readyz")
        assert answer.status == 503
        assert answer.text.splitlines() == [
            "source: no broker answers at b:9092 (for 12 s, 5 tries); see /help/StreammetricsKafkaDown",
            "store: connection refused (for 3 s, 2 tries); see /help/StreammetricsRedisDown",
            "publisher: timeout (for 0 s, 1 try); see /help/StreammetricsRedisDown",
        ]

    def test_a_partition_that_stands_still_is_named_with_its_offset_and_the_reason(self, worker_port: Port) -> None:
        worker_port.status.ready = True
        since = worker_port.now.seconds - 75.0
        worker_port.status.standstills[Input("clicks", 3)] = Standstill(17, since, "the batch has a\nwrong checksum")
        answer = worker_port.ask("/readyz")
        assert answer.status == 503
        assert answer.text == (
            "worker: clicks [3] has stood at offset 17 for 75 s although it has more records: the batch has a wrong checksum; "
            "see /help/StreammetricsPartitionStandsStill\n"
        )

    def test_every_runbook_that_a_problem_names_is_served(self, port: Port) -> None:
        trouble = Trouble(port.now.seconds, 1, "away")
        port.status.source_trouble = port.status.reader_trouble = port.status.store_trouble = port.status.publish_trouble = trouble
        port.status.down["worker 1"] = trouble
        port.status.standstills[Input("clicks", 3)] = Standstill(17, port.now.seconds, "it is damaged")
        paths = {line.rpartition("see ")[2] for line in port.ask("/readyz").text.splitlines()}
        assert len(paths) == 6
        assert [path for path in paths if port.ask(path).status != 200] == []
        assert json.loads(port.ask("/api/pulse").body)["runbook"] == "StreammetricsKafkaDown"

    def test_a_conflict_of_consumer_groups_makes_a_worker_not_ready(self, worker_port: Port) -> None:
        worker_port.status.ready = True
        worker_port.status.group_conflict = "two groups use the namespace"
        answer = worker_port.ask("/readyz")
        assert (answer.status, answer.text) == (503, "worker: two groups use the namespace\n")

    def test_an_exporter_needs_no_source(self, exporter_port: Port) -> None:
        assert exporter_port.ask("/readyz").status == 503
        exporter_port.show()
        assert exporter_port.ask("/readyz").status == 200

    def test_an_exporter_without_a_store_reports_it_at_the_start(self, exporter_port: Port) -> None:
        exporter_port.status.store_trouble = Trouble(exporter_port.now.seconds - 3, 2, "connection refused")
        assert exporter_port.ask("/readyz").text.splitlines()[0] == (
            "store: connection refused (for 3 s, 2 tries); see /help/StreammetricsRedisDown"
        )

    def test_a_worker_needs_no_report(self, worker_port: Port) -> None:
        worker_port.status.ready = True
        assert worker_port.ask("/readyz").status == 200


class TestReport:
    def test_the_report_is_served_as_json(self, port: Port) -> None:
        report = port.pipeline.report()
        history = History().add(START_MS, [experiment({"control": 0.5, "treatment": 0.4})])
        port.answers.show(report, history)
        answer = port.ask("/api/report")
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        wanted = plain(published(report, port.pipeline.engine.layout, history))
        assert json.loads(answer.body) == json.loads(json.dumps(wanted))

    def test_without_a_report_the_json_gives_the_reason(self, port: Port, worker_port: Port) -> None:
        for process, why in ((port, "no committed state has been read yet"), (worker_port, "this process only consumes; use the exporter")):
            answer = process.ask("/api/report")
            assert (answer.status, answer.headers["content-type"]) == (503, "application/json")
            assert json.loads(answer.body)["error"].startswith(why)

    def test_a_new_report_replaces_the_last_one(self, port: Port) -> None:
        port.show()
        before = json.loads(port.ask("/api/report").body)
        later = Pipeline().feed("impressions", shown("u1", "other", ts=START_MS))
        port.answers.show(later.report())
        after = json.loads(port.ask("/api/report").body)
        assert (before["tasks_committed"], before["sessions_open"]) == (1, 1)
        assert after == json.loads(json.dumps(plain(published(later.report(), later.engine.layout, History()))))


class TestPulse:
    def test_it_has_the_lag_of_this_process_and_the_age_of_its_report(self, port: Port) -> None:
        port.status.ready = True
        port.status.lag_records[Input("impressions", 1)] = 7
        port.status.lag_records[Input("impressions", 0)] = 0
        port.status.lag_seconds[Input("impressions", 0)] = 1.5
        port.status.commits["written"] = 3
        port.show()
        port.now.seconds += 4
        port.show()
        port.now.seconds += 2
        pulse = json.loads(port.ask("/api/pulse").body)
        assert (pulse["missing"], pulse["publishes"], pulse["commits"]) == ([], True, {"written": 3})
        assert (pulse["report_age_seconds"], pulse["report_gap_seconds"]) == (2.0, 4.0)
        assert pulse["lag"] == [
            {"topic": "impressions", "partition": 0, "records": 0, "seconds": 1.5},
            {"topic": "impressions", "partition": 1, "records": 7, "seconds": None},
        ]

    def test_it_has_the_rate_of_events(self, port: Port) -> None:
        def event_rate() -> float | None:
            rate: float | None = json.loads(port.ask("/api/pulse").body)["events_per_second"]
            return rate

        fed = Pipeline().feed("impressions", shown("u1", "L1", ts=START_MS))
        assert event_rate() is None
        port.answers.show(fed.report())
        assert event_rate() is None
        fed.feed("impressions", *(shown(f"u{number}", f"L{number}", ts=START_MS) for number in range(2, 32)))
        port.now.seconds += 10
        port.answers.show(fed.report())
        assert event_rate() == 3
        port.now.seconds += 1
        assert event_rate() == 3

    def test_it_has_the_age_of_the_newest_commit_whichever_worker_made_it(self, exporter_port: Port) -> None:
        def commit_age() -> float | None:
            age: float | None = json.loads(exporter_port.ask("/api/pulse").body)["commit_age_seconds"]
            return age

        fed = two_variants()
        report = fed.report()
        assert commit_age() is None
        for _ in range(3):  # the publisher reads the same state again and again
            exporter_port.answers.show(report)
            exporter_port.now.seconds += 30
        assert commit_age() == 90
        exporter_port.answers.show(fed.report())
        assert commit_age() == 0

    def test_its_problems_equal_those_of_readiness(self, port: Port) -> None:
        port.status.source_trouble = Trouble(port.now.seconds - 12, 5, "no broker answers at b:9092")
        pulse = json.loads(port.ask("/api/pulse").body)
        assert pulse["missing"] == [line.partition("; see /help/")[0] for line in port.ask("/readyz").text.splitlines()]
        assert pulse["report_age_seconds"] is None

    def test_an_exporter_has_no_lag_and_a_worker_does_not_publish(self, exporter_port: Port, worker_port: Port) -> None:
        assert json.loads(exporter_port.ask("/api/pulse").body)["lag"] is None
        assert json.loads(worker_port.ask("/api/pulse").body)["publishes"] is False


class TestPage:
    def test_the_page_is_html_that_loads_its_own_files_only(self, still_port: Port) -> None:
        answer = still_port.ask("/")
        assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        loaded = re.findall(r"""(?:src|href)=["']([^"']*)["']""", answer.text)
        assert {"/page.js", "/page.css"} <= set(loaded)
        assert all(still_port.ask(path).status in (200, 503) for path in loaded if path != "data:," and not path.startswith("#"))
        page = re.sub(r'<script id="glossary" type="application/json">[^<]*</script>', "", answer.text)  # data: it may name other pages
        assert not re.search(r"https?://|//\w", page)
        assert not re.search(r"<script(?! src=)|<style|\son\w+=|style=", page)

    def test_the_content_security_policy_allows_own_files_only(self, still_port: Port) -> None:
        policy = still_port.ask("/").headers["content-security-policy"]
        assert policy.startswith("default-src 'none';")
        assert "unsafe" not in policy

    def test_the_scripts_set_text_and_never_markup(self) -> None:
        folder = resources.files("streammetrics.exporters.http").joinpath("static")
        scripts = {name: folder.joinpath(name).read_text("utf-8") for name in SCRIPTS}
        assert {path.name for path in folder.iterdir() if path.name.endswith(".js")} == {*SCRIPTS, "uplot.js"}
        library = folder.joinpath("uplot.js").read_text("utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(|setAttribute|fetch\(|XMLHttp", library
        )
        addresses = r"//www\.w3\.org/2000/svg|\\/\\/github\\\.com\\/streammetrics"
        markup = rf"innerHTML|outerHTML|insertAdjacent|document\.write|eval\b|Function\(|https?:(?!{addresses})|\.style\b"
        for script in scripts.values():
            assert not re.search(markup, script)
        # Only one module sets attributes, and it rejects those that are not on its list.
        assert [name for name, script in scripts.items() if "setAttribute" in script] == ["elements.js"]
        allowed = re.search(r"const ATTRIBUTES = new Set\(\[(.*?)\]\)", scripts["elements.js"], re.DOTALL)
        assert allowed
        assert not {"href", "src", "style", "srcdoc", "action"} & set(re.findall(r'"([\w-]+)"', allowed[1]))
        assert not re.search(r'"on\w+"', allowed[1])

    def test_scripts_and_styles_have_their_content_types(self, still_port: Port) -> None:
        assert all(still_port.ask(f"/{name}").headers["content-type"].startswith("text/javascript") for name in SCRIPTS)
        assert still_port.ask("/page.css").headers["content-type"].startswith("text/css")


class TestTags:
    """A client that already has the content gets 304."""

    CURVES = "/api/curves?window_ms=300000&metric=ndcg@10"

    def test_unchanged_content_gets_304(self, port: Port) -> None:
        port.show()
        for path in (*PAGE_FILES, "/api/report", self.CURVES):
            first = port.ask(path)
            assert first.status == 200
            tag = first.headers["etag"]
            for etag in (tag, f'"other", {tag}', tag.removeprefix("W/"), "*"):
                again = port.ask(path, headers={"If-None-Match": etag})
                assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
                for name in ("cache-control", "content-security-policy"):
                    assert again.headers[name] == first.headers[name]
            assert port.ask(path, "HEAD", headers={"If-None-Match": tag}).status == 304

    def test_other_tags_get_the_whole_content(self, port: Port) -> None:
        port.show()
        whole = port.ask("/api/report").body
        for etag in ('"other"', "", "nonsense", "\xff", '""'):
            assert port.ask("/api/report", headers={"If-None-Match": etag}).body == whole

    def test_a_new_history_of_the_same_report_is_served(self, port: Port) -> None:
        report = port.pipeline.report()
        port.answers.show(report)
        assert json.loads(port.ask("/api/report").body)["history"] == []
        history = History().add(START_MS, (experiment({"control": 0.5, "treatment": 0.4}),))
        port.answers.show(report, history)
        assert len(json.loads(port.ask("/api/report").body)["history"]) == 1

    def test_probes_are_served_while_metrics_are_rendered(self, port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
        asked, go_on = threading.Event(), threading.Event()
        page = Exposition.page

        def slowly(exposition: Exposition, accept: str) -> tuple[bytes, str]:
            asked.set()
            go_on.wait(30)
            return page(exposition, accept)

        monkeypatch.setattr(Exposition, "page", slowly)
        scraped: list[int] = []
        scrape = threading.Thread(target=lambda: scraped.append(port.ask("/metrics").status))
        scrape.start()
        assert asked.wait(30)
        assert port.ask("/healthz").status == 200
        assert scraped == []
        go_on.set()
        scrape.join()
        assert scraped == [200]

    def test_equal_reports_have_equal_tags_and_others_do_not(self, port: Port) -> None:
        port.show()
        first = port.ask("/api/report").headers["etag"]
        port.show()
        assert port.ask("/api/report").headers["etag"] == first
        port.answers.show(Pipeline().feed("impressions", shown("u1", "other", ts=START_MS)).report())
        changed = port.ask("/api/report", headers={"If-None-Match": first})
        assert (changed.status, changed.headers["etag"] == first) == (200, False)

    def test_current_status_has_no_tag(self, port: Port) -> None:
        assert [port.ask(path).headers["etag"] for path in ("/api/pulse", "/metrics", "/healthz", "/nothing", "/api/report")] == [None] * 5


class TestCompression:
    """Clients that accept gzip get it, because the text for Prometheus is long and repetitive."""

    def test_gzip_gives_the_same_content_in_fewer_bytes(self, port: Port) -> None:
        port.show()
        for path in ("/metrics", "/api/report", "/page.js"):
            plain, packed = port.ask(path), port.ask(path, headers={"Accept-Encoding": "gzip, deflate"})
            assert (plain.headers["content-encoding"], packed.headers["content-encoding"]) == (None, "gzip")
            expected, unpacked = (
                [line for line in body.splitlines() if b"process_" not in line] for body in (plain.body, gzip.decompress(packed.body))
            )
            assert expected == unpacked  # process_ series change between requests
            assert len(packed.body) < len(plain.body) / 2
            assert (packed.headers["content-length"], packed.headers["vary"]) == (str(len(packed.body)), "Accept-Encoding")
            assert (packed.headers["content-type"], packed.headers["etag"]) == (plain.headers["content-type"], plain.headers["etag"])

    def test_short_content_is_not_compressed(self, port: Port) -> None:
        for path in ("/healthz", "/nothing"):
            assert port.ask(path, headers={"Accept-Encoding": "gzip"}).headers["content-encoding"] is None

    def test_the_tag_is_the_same_with_and_without_compression(self, port: Port) -> None:
        port.show()
        tag = port.ask("/api/report").headers["etag"]
        assert tag.startswith("W/")  # a strong tag would depend on the compression
        again = port.ask("/api/report", headers={"Accept-Encoding": "gzip", "If-None-Match": tag})
        assert (again.status, again.body) == (304, b"")


class TestManners:
    @pytest.mark.parametrize("path", ["/nothing", "/metrics/", "/api", "/page.html", "/../etc/passwd", "/%2e%2e/page.html", "//metrics"])
    def test_an_unknown_path_gets_404_with_the_list_of_paths(self, still_port: Port, path: str) -> None:
        answer = still_port.ask(path)
        assert (answer.status, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")
        assert all(path in answer.text for path in ("/metrics", "/healthz", "/readyz", "/api/report"))

    @pytest.mark.parametrize("path", PATHS)
    def test_head_is_get_without_the_body(self, still_port: Port, path: str) -> None:
        got, head = still_port.ask(path), still_port.ask(path, "HEAD")
        assert (head.status, head.body) == (got.status, b"")
        assert head.headers["content-type"] == got.headers["content-type"]

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
    @pytest.mark.parametrize("path", PATHS)
    def test_other_methods_are_rejected(self, still_port: Port, path: str, method: str) -> None:
        answer = still_port.ask(path, method)
        assert answer.status == 405
        assert set(answer.headers["allow"].replace(",", "").split()) == {"GET", "HEAD"}

    @pytest.mark.parametrize("path", [*PATHS, "/nothing"])
    def test_every_response_has_the_security_headers(self, still_port: Port, path: str) -> None:
        headers = still_port.ask(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["cache-control"] == ("no-cache" if path in PAGE_FILES else "no-store")
        assert headers["server"] is None

    @pytest.mark.parametrize(
        "sent",
        [
            b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody",
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\nbody",
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n",
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
        ],
    )
    def test_a_body_is_rejected_unread_and_the_connection_closed(self, still_port: Port, sent: bytes) -> None:
        with socket.create_connection(_address(still_port), timeout=10) as client:
            client.sendall(sent)
            answer = read_until_closed(client)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert answer.count(b"HTTP/1.1") == 1

    def test_headers_over_the_limit_are_rejected(self, still_port: Port) -> None:
        with socket.create_connection(_address(still_port), timeout=10) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 2 * HEADER_BYTES_MAX)
            assert client.recv(100).startswith(b"HTTP/1.1 400 ")

    @pytest.mark.parametrize(
        "sent",
        [
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * HEADER_BYTES_MAX,
            b"GET /healthz HTTP/1.1\r\nHost: x" + b"\r\nX-Short: 1" * (HEADER_BYTES_MAX // 8),
            b"GET /healthz?" + b"x" * HEADER_BYTES_MAX + b" HTTP/1.1\r\nHost: x",
        ],
        ids=["one header", "many headers", "the path"],
    )
    def test_a_head_over_the_limit_is_rejected_when_it_arrives_at_once(self, still_port: Port, sent: bytes) -> None:
        """One read can return more than the limit, so a long head can be complete before it is checked."""
        with socket.create_connection(_address(still_port), timeout=10) as client:
            client.sendall(sent + b"\r\n\r\n")
            answer = read_until_closed(client)
        assert re.match(rb"HTTP/1\.1 (431|400) ", answer)
        assert answer.count(b"HTTP/1.1") == 1

    @pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\x00\x01\x00\x01", b"GET\r\n\r\n", b"GET /healthz HTTP/9\r\n\r\n"])
    def test_invalid_http_is_rejected(self, still_port: Port, sent: bytes) -> None:
        with socket.create_connection(_address(still_port), timeout=10) as client:
            client.sendall(sent + b"\r\n" * 2)
            assert client.recv(100).startswith(b"HTTP/1.1 400 ")

    def test_incomplete_requests_do_not_block_others(self, still_port: Port) -> None:
        slow = [socket.create_connection(_address(still_port), timeout=10) for _ in range(60)]
        try:
            for client in slow:
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost:")
            assert still_port.ask("/healthz").status == 200
        finally:
            for client in slow:
                client.close()


def _address(port: Port) -> tuple[str, int]:
    parts = urlsplit(port.base)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


class TestLife:
    def test_a_port_in_use_is_reported_at_once_as_a_wrong_setting(self, port: Port) -> None:
        taken = _address(port)[1]
        with pytest.raises(ConfigError, match=rf"http\.port = {taken}: cannot listen on 127\.0\.0\.1 port {taken}.*choose another"):
            HttpServer(port.answers, "127.0.0.1", taken)

    @pytest.mark.parametrize("host", ["256.0.0.1", "192.0.2.1", "", "no..name", "a" * 64, "nul\0"])
    def test_a_host_of_another_machine_is_reported_as_a_wrong_setting(self, host: str, port: Port) -> None:
        with pytest.raises(ConfigError) as caught:
            HttpServer(port.answers, host, 0)
        (problem,) = caught.value.problems
        assert (problem.key, problem.value) == ("http.host", host)
        assert problem.allowed.startswith(f"cannot listen on {host} port 0: ")
        assert problem.allowed.endswith("; use an address of this machine: 127.0.0.1 for local clients only, 0.0.0.0 for every network")

    def test_it_stops_with_clients_connected_and_frees_the_port(self, port: Port) -> None:
        before = set(threading.enumerate())
        server = HttpServer(port.answers, "127.0.0.1", 0)
        server.start()
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200 ")
            server.stop()
        again = HttpServer(port.answers, "127.0.0.1", server.port)
        again.stop()
        assert not set(threading.enumerate()) - before

    def test_it_can_be_stopped_before_its_start_and_twice(self, port: Port) -> None:
        server = HttpServer(port.answers, "127.0.0.1", 0)
        server.stop()
        server.stop()

    def test_it_serves_on_the_ipv6_loopback_address(self, port: Port) -> None:
        if not socket.has_ipv6:
            pytest.skip("this Python has no IPv6")
        try:
            server = HttpServer(port.answers, "::1", 0)
        except ConfigError:
            pytest.skip("this machine has no IPv6 loopback address")
        assert server.url == f"http://[::1]:{server.port}"
        server.start()
        try:
            with socket.create_connection(("::1", server.port), timeout=10) as client:
                client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                assert b" 200 " in client.recv(100)
        finally:
            server.stop()


def test_with_empty_topics_it_is_ready_and_says_what_it_waits_for(empty_port: Port) -> None:
    empty_port.show()
    said = empty_port.ask("/readyz")
    lines = said.text.splitlines()
    assert (said.status, lines[0]) == (200, "ok")
    assert lines[2] == "No events yet on impressions, feedback."
    assert lines[-2:] == list(EXAMPLES)
    assert json.loads(empty_port.ask("/api/pulse").body)["waiting"] == lines[1:]
