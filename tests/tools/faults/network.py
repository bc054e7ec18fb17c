"""Hosts of a test: network namespaces that a bridge connects, and links between them that are cut, one-way, lossy or slow.

Everything lies in namespaces of this process, so all of it is gone when the process and its servers have ended.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator

from tests.tools.faults.schedule import Link
from tests.tools.servers.process import Host
from tests.tools.servers.tools import find_tool

ENTERED = "IN_NETWORK_OF_TESTS"
SUBNET = "192.0.2"
"""A range for documentation, which no real network has."""
TABLE = "bridge faults"
LOSS_PERCENT = 30
SLOW_KBYTES = 3
"""What a slow link carries in a second. Packets beyond that are lost, as in a full queue."""
RULES = {
    "cut": "drop",
    "lossy": f"numgen random mod 100 < {LOSS_PERCENT} drop",
    "slow": f"limit rate over {SLOW_KBYTES} kbytes/second burst {SLOW_KBYTES} kbytes drop",
}


class NetworkError(RuntimeError):
    """The machine does not allow a network of its own. The message says why."""


def enter_namespaces() -> None:
    """Run this command again in namespaces of its own, with nothing but a loopback device. Returns in there. Raises NetworkError."""
    if ENTERED in os.environ:
        return
    as_root = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    words = [str(find_tool("unshare")), *as_root, "--net", "--mount"]
    tried = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        advice = (
            "run this as root, or allow users their own namespaces (sysctl kernel.unprivileged_userns_clone or user.max_user_namespaces)"
        )
        raise NetworkError(f"this machine allows no network namespaces: {tried.stderr.strip()}; {advice}")
    sys.stdout.flush()
    os.execve(words[0], [*words, sys.executable, "-m", "tests.tools.faults", *sys.argv[1:]], {**os.environ, ENTERED: "1"})


class Network:
    """Hosts by name. This process is the hub between them and is cut off from none. Needs `enter_namespaces` before."""

    def __init__(self, names: Iterable[str]) -> None:
        self._ip, self._nft, enter = find_tool("ip"), find_tool("nft"), str(find_tool("nsenter"))
        self._do("mount", "-t", "tmpfs", "none", "/run")  # where `ip` keeps the names of namespaces, for this process alone
        self._do(self._ip, "link", "set", "lo", "up")
        self._do(self._ip, "link", "add", "name", "hub", "type", "bridge")
        self._do(self._ip, "address", "add", f"{SUBNET}.1/24", "dev", "hub")
        self._do(self._ip, "link", "set", "hub", "up")
        self.hosts = {name: Host(f"{SUBNET}.{number}", (enter, f"--net=/run/netns/{name}")) for number, name in enumerate(names, start=2)}
        for name, host in self.hosts.items():
            self._connect(name, host.address)
        self._apply(f"add table {TABLE}\nadd chain {TABLE} forward {{ type filter hook forward priority 0; }}\n")

    def _connect(self, name: str, address: str) -> None:
        self._do(self._ip, "netns", "add", name)
        self._do(self._ip, "link", "add", "name", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        self._do(self._ip, "link", "set", name, "master", "hub")
        self._do(self._ip, "link", "set", name, "up")
        self._do(self._ip, "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            self._do(self._ip, "-n", name, "link", "set", device, "up")

    @contextlib.contextmanager
    def faulty(self, rule: str, links: Iterable[Link]) -> Iterator[None]:
        """Let links lose packets by one of RULES while the block runs."""
        pairs = ((self.hosts[link.sender].address, self.hosts[link.receiver].address) for link in links)
        self._apply("".join(f"add rule {TABLE} forward ip saddr {one} ip daddr {other} {RULES[rule]}\n" for one, other in pairs))
        try:
            yield
        finally:
            self._apply(f"flush chain {TABLE} forward\n")

    def _apply(self, rules: str) -> None:
        self._do(self._nft, "-f", "-", given=rules)

    @staticmethod
    def _do(*words: object, given: str = "") -> None:
        done = subprocess.run([str(word) for word in words], input=given, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NetworkError(f"{' '.join(map(str, words))} failed: {done.stderr.strip()}\n{given}")
