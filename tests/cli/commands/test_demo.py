"""Tests of `demo`: results on the terminal and at /metrics, a clean stop, and errors about the port."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streammetrics.cli.demo.demo import DEMO_DEFAULTS, load_demo
from streammetrics.cli.signals import SIGNALS
from streammetrics.errors import ConfigError
from tests.support.command_line import COMMAND, called, environment, started
from tests.support.paths import ROOT
from tests.support.timing import time_bound
from tests.tools.servers.process import wait_until

NUMBERS_SECONDS = 10.0
"""How soon the first numbers must be there on a quiet machine."""
PATIENCE_SECONDS = 120.0
"""How long a busy machine may take."""


@contextlib.contextmanager
def running(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a demo, and yield it with the first address that it prints."""
    with started("demo", "--port", "0", *words) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        match = re.search(r"http://127\.0\.0\.1:\d+/", first)
        assert match, first
        yield process, match[0]
        process.kill()


def page(address: str) -> str:
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            content: bytes = answer.read()
            return content.decode()
    except OSError:  # refused, or no whole answer in time
        return ""


def values(text: str, series: str, **labels: str) -> list[float]:
    lines = "\n".join(line for line in text.splitlines() if line.startswith(f"{series}{{"))  # a page of thousands takes long to read
    return [
        sample.value
        for family in text_string_to_metric_families(f"{lines}\n")
        for sample in family.samples
        if sample.name == series and labels.items() <= sample.labels.items()
    ]


class RunningDemo(NamedTuple):
    """A running demo: its address, and when it was started (Unix time in seconds)."""

    address: str
    began: float


@pytest.fixture(scope="module")
def live_demo() -> Iterator[RunningDemo]:
    began = time.time()
    with running() as (_, address):
        yield RunningDemo(address, began)


@time_bound(NUMBERS_SECONDS)
def test_both_variants_and_views_appear_within_seconds_and_the_treatment_is_worse(live_demo: RunningDemo, seconds_max: float) -> None:
    labels = {"experiment": "ranker", "k": "10", "window": "1m", "segments": ""}

    def all_there() -> bool:
        text = page(f"{live_demo.address}metrics")
        series = ("streammetrics_ndcg", "streammetrics_live_ndcg")
        return all(values(text, name, variant=variant, **labels) for name in series for variant in ("control", "treatment"))

    wait_until(all_there, what="all four numbers are there", deadline_seconds=PATIENCE_SECONDS)
    assert time.time() - live_demo.began < seconds_max
    text = page(f"{live_demo.address}metrics")
    for name in ("streammetrics_ndcg", "streammetrics_live_ndcg"):
        [control], [treatment] = (values(text, name, variant=variant, **labels) for variant in ("control", "treatment"))
        assert 0 < treatment < 0.9 * control < 1

    def lists() -> float:
        window_values = values(
            page(f"{live_demo.address}metrics"), "streammetrics_window_lists", experiment="", window="1m", segments="", view="final"
        )
        return window_values[0] if window_values else 0

    wait_until(lambda: lists() > 2_000, what="a minute of fifty lists a second is there", deadline_seconds=PATIENCE_SECONDS)
    assert time.time() - live_demo.began < 2 * seconds_max, "so the traffic began before the process did"
    assert page(f"{live_demo.address}healthz") == page(f"{live_demo.address}readyz") == "ok\n"
    assert '"final_ms"' in page(f"{live_demo.address}api/report")


def test_final_numbers_follow_the_live_ones_by_the_attribution_time(live_demo: RunningDemo) -> None:
    def ends() -> dict[str, float]:
        text = page(f"{live_demo.address}metrics")
        series = "streammetrics_window_end_timestamp_seconds"
        return {view: end for view in ("live", "final") for end in values(text, series, window="1m", view=view)}

    wait_until(lambda: len(ends()) == 2, what="both views are there", deadline_seconds=PATIENCE_SECONDS)
    first = ends()
    assert 8 <= first["live"] - first["final"] <= 15, "the attribution time and the rest"
    wait_until(lambda: ends()["final"] >= first["final"] + 1, what="final windows move on", deadline_seconds=PATIENCE_SECONDS)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_stops_it_with_exit_code_0_and_the_counts(number: signal.Signals) -> None:
    with running("--rate", "5") as (process, address):
        wait_until(
            lambda: "streammetrics_live_ndcg{" in page(f"{address}metrics"), what="numbers are there", deadline_seconds=PATIENCE_SECONDS
        )
        process.send_signal(number)
        output, said = process.communicate(timeout=PATIENCE_SECONDS)
        assert (process.returncode, said) == (0, "")
        assert "matched" in output
        assert page(address) == ""


INTERRUPTED = """
import os, signal, sys
import numpy, prometheus_client, pydantic, rich.live, starlette.applications, structlog  # once for all that are forked

class Interrupting:
    def __init__(self, module):
        self.module = module
    def find_spec(self, name, path=None, target=None):
        if name == self.module:
            os.kill(os.getpid(), signal.SIGINT)
            sys.meta_path.remove(self)

ends = {}
for module in sys.argv[1:]:
    child = os.fork()
    if not child:
        sys.meta_path.insert(0, Interrupting(module))
        from streammetrics.cli.main import main
        main(["demo", "--port", "0"])
    ends[module] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(ends)
"""
"""Starts a demo for each module named, which is interrupted as it imports that module, and prints how each of them ended."""


def test_ctrl_c_during_start_up_stops_it_with_exit_code_0() -> None:
    modules = ["streammetrics.config", "streammetrics.cli.demo.demo", "uvicorn", "streammetrics.connectors.simulated"]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *modules],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{dict.fromkeys(modules, 0)}\n"


def test_it_stops_after_the_given_seconds() -> None:
    done = called("demo", "--port", "0", "--seconds", "0.1")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_port_in_use_is_reported_with_its_option() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = called("demo", "--port", str(port))
    assert done.returncode == 2
    assert f"--port = {port}: cannot listen on 127.0.0.1 port {port}: Address already in use" in done.stderr
    assert done.stdout == ""


def test_an_invalid_host_is_reported_with_its_option() -> None:
    done = called("demo", "--host", "256.1.1.1", "--port", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--host = 256.1.1.1: cannot listen on 256.1.1.1 port 0: " in done.stderr
    assert "--port" not in done.stderr


def test_a_terminal_shows_the_variants_side_by_side() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "wb") as terminal:
        environ = {**environment(), "TERM": "xterm", "COLUMNS": "120", "LINES": "50"}
        process = subprocess.Popen(
            [*COMMAND, "demo", "--port", "0"], stdin=terminal, stdout=terminal, stderr=terminal, cwd=ROOT, env=environ
        )
    seen = b""
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        both_views = rb"ndcg@10 +0\.\d{4} +0\.\d{4} .*-\d+\.\d %.* 0\.\d{4} +0\.\d{4} .*-\d+\.\d %"
        while not (re.search(both_views, seen) and b"events/s" in seen):
            assert time.monotonic() < deadline, seen
            ready, _, _ = select.select([ours], [], [], 0.5)
            seen += os.read(ours, 65_536) if ready else b""
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the terminal of a process that has ended
            while chunk := os.read(ours, 65_536):
                seen += chunk
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        os.close(ours)
    for words in (b"control", b"treatment", b"last 1m", b"/metrics", b"final up to", b"verdict   ranker: "):
        assert words in seen


def test_settings_of_the_operator_override_the_demo_defaults(tmp_path: Path) -> None:
    path = tmp_path / "streammetrics.toml"
    path.write_text('[windows]\npane_ms = 300000\n[metrics]\nnames = ["recall"]\n')
    settings = load_demo(path, {"STREAMMETRICS_JOIN_GAP_MS": "20000"}, {"join.lateness_ms": "1000"}).settings
    assert [str(window) for window in settings.windows.windows] == ["5m", "1h"], "the demo's own windows do not fit these panes"
    assert (settings.join.gap_ms, settings.join.lateness_ms, settings.metrics.names) == (20_000, 1_000, ("recall",))
    assert settings.join.attribution_ms == int(DEMO_DEFAULTS["join.attribution_ms"])  # type: ignore[call-overload]
    settings = load_demo(None, {}, {"windows.windows": "30s"}).settings
    assert ([str(window) for window in settings.windows.windows], settings.windows.pane_ms) == (["30s"], 1_000)
    with pytest.raises(ConfigError, match=r"windows\.windows = 1500ms"):
        load_demo(None, {}, {"windows.windows": "1500ms"})
