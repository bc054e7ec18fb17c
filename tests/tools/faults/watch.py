"""Samples of a deployment while faults come and go: how late the numbers are, and what the processes hold."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from tests.tools.faults.deployment import Deployment
from tests.tools.faults.schedule import Fault

LAG_SECONDS_MAX = 5.0
"""Numbers are on time below this. Without faults the lag is about three seconds, two of them for events out of order."""
STEADY_SAMPLES = 3
RECOVERY_SECONDS_MAX = 120.0
SAMPLE_SECONDS = 1.0
WATERMARK = "streammetrics_tasks_watermark_timestamp_seconds"


class FaultError(Exception):
    """The product failed. The message says how."""


class Held(NamedTuple):
    """What a process holds."""

    pid: int
    resident_mb: float
    descriptors: int


class Sample(NamedTuple):
    """A second of the run: seconds since the start, lag in seconds, and what each process held."""

    at: float
    lag: float
    held: dict[str, Held]


class Suffered(NamedTuple):
    """A fault and its effect. `recovered` is in seconds after it was healed; None if the numbers never came back on time."""

    fault: Fault
    begin: float
    healed: float
    lag_max: float
    recovered: float | None


def held(pid: int) -> Held:
    """Read what a process holds. Raises OSError for one that is gone."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines())
    return Held(pid, int(status["VmRSS"].split()[0]) / 1_024, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()))


class Watch:
    """A thread that takes a sample every second, and starts processes again that have ended."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.samples: list[Sample] = []
        self._began = time.monotonic()
        self._watermark = time.time()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.failure: BaseException | None = None

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        try:
            while not self._stop.wait(SAMPLE_SECONDS):
                self._deployment.supervise()
                with contextlib.suppress(OSError):
                    self._watermark = self._deployment.exporter.sample(WATERMARK) or self._watermark
                self.samples.append(Sample(self.now, time.time() - self._watermark, self._held()))
        except BaseException as error:
            self.failure = error

    def _held(self) -> dict[str, Held]:
        held_by_process = {}
        for name, server in self._deployment.servers.items():
            with contextlib.suppress(OSError, KeyError):
                if server.alive:
                    held_by_process[name] = held(server.pid)
        return held_by_process

    def wait(self, until: float) -> None:
        """Wait until so many seconds after the start. Raises what ended the watch or the traffic."""
        while True:
            failure = self.failure or self._deployment.feeder.failure
            if failure is not None:
                raise FaultError(f"the run itself has failed: {failure!r}") from failure
            if self.now >= until:
                return
            time.sleep(min(0.1, max(0.0, until - self.now)))

    def suffered(self, fault: Fault) -> Suffered:
        """Inflict a fault when its time has come, and wait until the numbers are on time again."""
        self.wait(fault.begin)
        begin = self.now
        with self._deployment.suffering(fault) as met:
            self.wait(begin + fault.seconds)
        healed = self.now
        recovered = None
        while recovered is None and self.now < healed + RECOVERY_SECONDS_MAX:
            self.wait(self.now + SAMPLE_SECONDS)
            recovered = on_time([sample for sample in self.samples if sample.at > healed])
        return self._effect(met, begin, healed, recovered)

    def _effect(self, fault: Fault, begin: float, healed: float, at: float | None) -> Suffered:
        lag_max = max(sample.lag for sample in self.samples if sample.at > begin)
        return Suffered(fault, begin, healed, lag_max, None if at is None else at - healed if lag_max > LAG_SECONDS_MAX else 0.0)


def on_time(samples: Sequence[Sample]) -> float | None:
    """Return when the lag came below the bound to stay there; None if it has not been there for STEADY_SAMPLES."""
    late = [index for index, sample in enumerate(samples) if sample.lag > LAG_SECONDS_MAX]
    first = late[-1] + 1 if late else 0
    return samples[first].at if len(samples) - first >= STEADY_SAMPLES else None
