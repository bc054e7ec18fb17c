"""Tests of signals: the first one asks for a clean end at any moment, and the second one ends the process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streammetrics.cli.signals import SIGNALS, interrupt_on_signals, stop_on_signals
from streammetrics.errors import StreammetricsError
from tests.support.command_line import COMMAND, environment
from tests.support.paths import ROOT
from tests.tools.servers.process import wait_until

WAITING = """
import os, signal, sys, threading, time
from streammetrics.cli.signals import stop_on_signals

def send():
    time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGTERM)

sys.setswitchinterval(1e-6)  # so that the signal can interrupt the wait anywhere
for turn in range(100):
    with stop_on_signals() as stop:
        sender = threading.Thread(target=send)
        sender.start()
        while not stop.wait(0):
            pass
        sender.join()
print("stopped")
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_sets_the_event(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_on_signals() as stop:
        assert not stop.is_set()
        signal.raise_signal(number)
        assert stop.wait(10)
    assert signal.getsignal(number) is before


def test_without_a_signal_the_event_stays_unset() -> None:
    with stop_on_signals() as stop:
        pass
    assert not stop.is_set()


def test_a_service_that_is_stopped_during_its_imports_exits_cleanly() -> None:
    words = ("run", "--port", "0", "--set", "redis.url=redis://127.0.0.1:1/0")
    with subprocess.Popen([*COMMAND, *words], stderr=subprocess.PIPE, cwd=ROOT, env=environment(), text=True) as process:
        wait_until(lambda: catches(process.pid, signal.SIGTERM), what="it has a handler")
        process.terminate()
        _, log = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "Traceback" not in log
    assert '"event": "stopped"' in log


def catches(pid: int, number: signal.Signals) -> bool:
    """Return whether a process handles a signal, according to the kernel."""
    (caught,) = [line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt")]
    return bool(int(caught, 16) >> (number - 1) & 1)


ENDING = """
import signal
from streammetrics.cli.signals import stop_on_signals

with stop_on_signals() as stop:
    stop.set()
    signal.raise_signal(signal.SIGTERM)
    print("cleaned up")
"""


def test_a_first_signal_during_the_shutdown_does_not_interrupt_it() -> None:
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "cleaned up\n", "")


def test_a_signal_during_a_wait_sets_the_event() -> None:
    done = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped\n", "")


TWICE = """
import signal
from streammetrics.cli.signals import interrupt_on_signals, stop_on_signals

with BLOCK():
    for _ in range(2):
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            pass
"""


@pytest.mark.parametrize("block", [stop_on_signals, interrupt_on_signals])
def test_the_second_signal_ends_the_process_at_once(block: Callable[[], object]) -> None:
    done = subprocess.run([sys.executable, "-c", TWICE.replace("BLOCK", block.__name__)], cwd=ROOT, timeout=120, check=False)
    assert done.returncode == 128 + signal.SIGTERM


def test_a_repeated_sighup_counts_once() -> None:
    with stop_on_signals() as stop:
        for _ in range(2):
            signal.raise_signal(signal.SIGHUP)
        assert stop.wait(10)


@pytest.mark.parametrize("number", SIGNALS)
def test_an_ignored_signal_stays_ignored(number: signal.Signals) -> None:
    """nohup ignores SIGHUP, and shells ignore SIGINT for background processes."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        for block in (stop_on_signals(), interrupt_on_signals()):
            with block as stop:
                signal.raise_signal(number)
            assert stop is None or not stop.is_set()
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupted_block_cleans_up_even_after_sighup(number: signal.Signals) -> None:
    before, cleaned = signal.getsignal(number), []

    @contextmanager
    def cleaning() -> Iterator[None]:
        try:
            yield
        finally:
            signal.raise_signal(signal.SIGHUP)
            cleaned.append(True)

    with pytest.raises(StreammetricsError, match=r"^interrupted; no partial file"), interrupt_on_signals(), cleaning():
        signal.raise_signal(number)
    assert cleaned
    assert signal.getsignal(number) is before
