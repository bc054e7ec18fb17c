"""Installs Debian packages without questions and without starting services. Standard library only, because it runs before any venv.

python3 -m tests.tools.servers.apt python3-venv
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

POLICY = Path("/usr/sbin/policy-rc.d")  # Debian packages run it before they start a service
FORBIDDEN = 101


class InstallError(RuntimeError):
    """Something could not be installed. The message says what to install by hand."""


def can_install() -> bool:
    """Whether this machine has apt-get and this user may run it (as root or through sudo)."""
    return shutil.which("apt-get") is not None and (os.geteuid() == 0 or shutil.which("sudo") is not None)


def install(packages: Sequence[str]) -> None:
    """Install packages. The package lists are updated only if the first attempt fails. Raises InstallError."""
    names = " ".join(packages)
    by_hand = f"Install {names} by hand, and run this again."
    if not can_install():
        raise InstallError(f"cannot install {names}: this needs apt-get, and root or sudo. {by_hand}")
    command = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", *packages]
    with _no_service_starts():
        if _run(command).returncode == 0:
            return
        print("  apt-get update", flush=True)
        _run(["apt-get", "update", "--quiet", "-o", "DPkg::Lock::Timeout=300"])
        second = _run(command)
    if second.returncode != 0:
        raise InstallError(f"`{' '.join(command)}` failed:\n{_tail(second.stdout)}\n{by_hand}")


@contextlib.contextmanager
def _no_service_starts() -> Iterator[None]:
    """Keep new packages from starting their services on default ports. An existing policy is not changed."""
    if POLICY.exists():
        yield
        return
    # It has an effect only while this process runs, so that a killed installation leaves no effect behind.
    script = f"#!/bin/sh\n# written for one installation and removed after it\n[ -d /proc/{os.getpid()} ] && exit {FORBIDDEN}\nexit 0\n"
    written = _run(["sh", "-c", f"cat > {POLICY} && chmod 755 {POLICY}"], given=script)
    if written.returncode != 0:
        raise InstallError(f"no right to install packages ({_tail(written.stdout)}); run this as root or with sudo")
    try:
        yield
    finally:
        _run(["rm", "-f", str(POLICY)])


def _run(command: Sequence[str], given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command as root and capture its output."""
    full = [*_as_root(), "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", *command]
    return subprocess.run(full, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)


def _as_root() -> list[str]:
    """Return nothing for root, else sudo. It may ask for a password only in a terminal."""
    if os.geteuid() == 0:
        return []
    return ["sudo"] if sys.stdin is not None and sys.stdin.isatty() else ["sudo", "--non-interactive"]


def _tail(text: str, lines: int = 15) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


def main() -> int:
    packages = sys.argv[1:]
    print(f"  apt-get install {' '.join(packages)}", flush=True)
    try:
        install(packages)
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
