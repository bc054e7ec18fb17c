"""The stack from the command line: `python -m tests.servers.stack_command up`, then `regress`, then `down`.

A process of its own keeps the servers; `up` waits until they serve and returns, `regress` until somebody is paged. Everything lies in
temporary directories and in .cache/stack, and is gone after `down`, also when the keeper was killed.
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

from tests.servers.process import wait_until
from tests.servers.tools import CACHE_DIRECTORY

HOME = CACHE_DIRECTORY / "stack"
UP_SECONDS = 180
DOWN_SECONDS = 60
ALERT_SECONDS = 300
"""How long `regress` waits for the page; it comes after about a minute, later the longer nothing was wrong."""
LOOK_SECONDS = 0.2
VARIANT, FACTOR = "treatment", 0.4
PAGED = "page   firing   StreammetricsRankingRegressed"


class Home:
    """What the keeper and the commands tell each other: files in one directory."""

    def __init__(self, directory: Path = HOME) -> None:
        self.directory = directory
        self.log, self.pages, self.configuration = directory / "log", directory / "pages", directory / "streammetrics.toml"
        self.regressed = directory / "regressed"
        self._pid, self._addresses = directory / "pid", directory / "addresses.json"

    @property
    def keeper(self) -> int | None:
        """The keeper's process id, if it runs."""
        try:
            pid = int(self._pid.read_text(encoding="utf-8"))
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if __spec__.name.encode() in command else None  # a pid of long ago may be somebody else's now

    @property
    def addresses(self) -> dict[str, str] | None:
        """Where everything is; None until it serves."""
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
        print("The stack runs already.")
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
    print(f"  {'alerts':<{width}}  {home.pages} (what a person would be told; it grows)")
    print(f"  {'settings':<{width}}  {home.configuration} (for `streammetrics report --config` and the like)")
    if home.regressed.exists():
        print(f"An A/B test flows whose {VARIANT} ranks with {FACTOR:.0%} of its quality. `make stack-down` ends it all.")
    else:
        print(f"An A/B test without an effect flows. `make stack-regress` makes its {VARIANT} worse, `make stack-down` ends it all.")


def regress(home: Home) -> int:
    keeper = home.keeper
    if keeper is None or home.addresses is None:
        print("error: no stack runs; start one by `make stack`", file=sys.stderr)
        return 1
    os.kill(keeper, signal.SIGUSR1)
    home.regressed.touch()
    print(f"From now on {VARIANT} ranks with {FACTOR:.0%} of its quality. What a person is told, until the page comes:", flush=True)
    try:
        return _watch(home)
    except KeyboardInterrupt:
        print(f"The stack goes on; what a person is told goes on in {home.pages}")
        return 0


def _watch(home: Home) -> int:
    """Print what people are told as it comes, until they are paged for the ranking."""
    shown, end = 0, time.monotonic() + ALERT_SECONDS
    while time.monotonic() < end and home.keeper is not None:
        message = home.pages.read_text(encoding="utf-8").splitlines()
        for line in message[shown:]:
            print(f"  {line}", flush=True)
        if any(PAGED in line for line in message):
            return 0
        shown = len(message)
        time.sleep(LOOK_SECONDS)
    print("error: the stack has ended" if home.keeper is None else f"error: no page came within {ALERT_SECONDS} s", file=sys.stderr)
    return 1


def down(home: Home) -> int:
    keeper = home.keeper
    if keeper is not None:
        os.kill(keeper, signal.SIGTERM)
        wait_until(lambda: home.keeper is None, what="the stack has ended", deadline_seconds=DOWN_SECONDS)
    said = "The stack is gone." if home.directory.exists() else "No stack runs."
    home.clear()
    print(said)
    return 0


def keep(home: Home) -> int:
    """Start the servers, serve until SIGTERM, and end them."""
    from tests.servers.stack import Stack  # noqa: PLC0415  the other commands need no server's client

    heard: SimpleQueue[int] = SimpleQueue()  # an event would have a lock, which its waiter may hold when the signal comes
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda number, _: heard.put(number))
    with Stack() as stack, home.pages.open("a", encoding="utf-8") as pages:
        home.configuration.write_text(stack.configuration(), encoding="utf-8")
        home.serve(stack.addresses())
        message, asked = 0, 0
        while asked in (0, signal.SIGUSR1):
            if asked:
                stack.feeder.regress(VARIANT, FACTOR)
            try:
                asked = heard.get(timeout=LOOK_SECONDS)
            except Empty:
                asked = 0
            for each in stack.webhook.message[message:]:
                message += 1
                at = time.strftime("%H:%M:%S")
                span = f" (scope {each.labels['scope']})" if "scope" in each.labels else ""
                print(f"{at} {each.path:<6} {each.status:<8} {each.name}: {each.annotations['summary']}{span}", file=pages, flush=True)
    return 0


COMMANDS = {"up": up, "regress": regress, "down": down, "keep": keep}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("home", type=Path, nargs="?", default=HOME, help="where its files lie (default: .cache/stack)")
    given = parser.parse_args()
    return COMMANDS[given.command](Home(given.home.resolve()))


if __name__ == "__main__":
    sys.exit(main())
