"""Runs the stack from the command line: `python -m tests.tools.servers.stack_command up`, then `regress`, then `down`.

A separate process, the keeper, runs the servers. `up` waits until they serve, and `regress` until a page is sent. All files are in
temporary directories and in .cache/stack. `down` deletes them, even if the keeper was killed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from queue import Empty, SimpleQueue

from tests.tools.servers.process import wait_until
from tests.tools.servers.tools import CACHE_DIRECTORY

HOME = CACHE_DIRECTORY / "stack"
UP_SECONDS = 180
DOWN_SECONDS = 60
ALERT_SECONDS = 300
"""How long `regress` waits for the page. It takes about a minute, and longer after a long time without an effect."""
POLL_SECONDS = 0.2
VARIANT, FACTOR = "treatment", 0.4
PAGED = "page   firing   StreammetricsRankingRegressed"


class Home:
    """The files through which the keeper and the commands communicate."""

    def __init__(self, directory: Path = HOME) -> None:
        self.directory = directory
        self.log, self.pages, self.configuration = directory / "log", directory / "pages", directory / "streammetrics.toml"
        self.regressed = directory / "regressed"
        self._pid, self._addresses = directory / "pid", directory / "addresses.json"

    @property
    def keeper(self) -> int | None:
        """The process id of the running keeper, or None."""
        try:
            pid = int(self._pid.read_text(encoding="utf-8"))
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if __spec__.name.encode() in command else None  # another process may have an old pid

    @property
    def addresses(self) -> dict[str, str] | None:
        """The addresses of the servers; None until they serve."""
        try:
            return dict(json.loads(self._addresses.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    def begin(self, pid: int) -> None:
        self._pid.write_text(str(pid), encoding="utf-8")

    def serve(self, addresses: dict[str, str]) -> None:
        unfinished = self._addresses.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(addresses), encoding="utf-8")
        unfinished.rename(self._addresses)

    def clear(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


def up(home: Home) -> int:
    if home.keeper is not None:
        print("The stack is already running.")
        show(home)
        return 0
    home.clear()
    home.directory.mkdir(parents=True)
    print("Starting Kafka, Redis, two workers, an exporter, Prometheus and Alertmanager ...", flush=True)
    with home.log.open("ab") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, "keep", str(home.directory)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    home.begin(keeper.pid)
    try:
        wait_until(lambda: home.addresses is not None or keeper.poll() is not None, what="the stack serves", deadline_seconds=UP_SECONDS)
    except (TimeoutError, KeyboardInterrupt) as error:
        down(home)
        print(f"error: {error or 'interrupted'}", file=sys.stderr)
        return 1
    if home.addresses is None:
        print(f"error: the stack did not start\n{home.log.read_text(encoding='utf-8', errors='replace')[-3000:]}", file=sys.stderr)
        home.clear()
        return 1
    show(home)
    return 0


def show(home: Home) -> None:
    addresses = home.addresses or {}
    width = max(map(len, addresses), default=0)
    print("\n".join(f"  {name:<{width}}  {address}" for name, address in addresses.items()))
    print(f"  {'alerts':<{width}}  {home.pages} (notifications, appended as they arrive)")
    print(f"  {'settings':<{width}}  {home.configuration} (for `streammetrics report --config` and the like)")
    if home.regressed.exists():
        print(f"The A/B test is running. {VARIANT} ranks with {FACTOR:.0%} of its quality. `make stack-down` stops everything.")
    else:
        print(f"An A/B test without an effect is running. `make stack-regress` degrades {VARIANT}, `make stack-down` stops everything.")


def regress(home: Home) -> int:
    keeper = home.keeper
    if keeper is None or home.addresses is None:
        print("error: no stack is running; start one with `make stack`", file=sys.stderr)
        return 1
    os.kill(keeper, signal.SIGUSR1)
    home.regressed.touch()
    print(f"{VARIANT} now ranks with {FACTOR:.0%} of its quality. Notifications until the page:", flush=True)
    try:
        return _watch(home)
    except KeyboardInterrupt:
        print(f"The stack keeps running. Further notifications are in {home.pages}")
        return 0


def _watch(home: Home) -> int:
    """Print notifications as they arrive, until the page for the ranking."""
    alerts_printed, end = 0, time.monotonic() + ALERT_SECONDS
    while time.monotonic() < end and home.keeper is not None:
        lines = home.pages.read_text(encoding="utf-8").splitlines()
        for line in lines[alerts_printed:]:
            print(f"  {line}", flush=True)
        if any(PAGED in line for line in lines):
            return 0
        alerts_printed = len(lines)
        time.sleep(POLL_SECONDS)
    print("error: the stack has stopped" if home.keeper is None else f"error: no page came within {ALERT_SECONDS} s", file=sys.stderr)
    return 1


def down(home: Home) -> int:
    keeper = home.keeper
    if keeper is not None:
        os.kill(keeper, signal.SIGTERM)
        wait_until(lambda: home.keeper is None, what="the stack has stopped", deadline_seconds=DOWN_SECONDS)
    result = "The stack has stopped." if home.directory.exists() else "No stack is running."
    home.clear()
    print(result)
    return 0


def keep(home: Home) -> int:
    """Start the servers, run them until SIGTERM, and stop them."""
    from tests.tools.servers.stack import Stack  # noqa: PLC0415  (the other commands need no clients)

    signals: SimpleQueue[int] = SimpleQueue()  # not an Event: its waiter may hold its lock when the signal arrives
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda number, _: signals.put(number))
    with Stack() as stack, home.pages.open("a", encoding="utf-8") as pages:
        home.configuration.write_text(stack.configuration(), encoding="utf-8")
        home.serve(stack.addresses())
        printed, received = 0, 0
        while received in (0, signal.SIGUSR1):
            if received:
                stack.feeder.regress(VARIANT, FACTOR)
            try:
                received = signals.get(timeout=POLL_SECONDS)
            except Empty:
                received = 0
            for alert in stack.webhook.alerts[printed:]:
                printed += 1
                at = time.strftime("%H:%M:%S")
                said = f"{alert.annotations['summary']}\n         {alert.annotations['description']}"
                print(f"{at} {alert.path:<6} {alert.status:<8} {alert.name}: {said}", file=pages, flush=True)
    return 0


COMMANDS = {"up": up, "regress": regress, "down": down, "keep": keep}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("home", type=Path, nargs="?", default=HOME, help="directory of its files (default: .cache/stack)")
    given = parser.parse_args()
    return COMMANDS[given.command](Home(given.home.resolve()))


if __name__ == "__main__":
    sys.exit(main())
