"""Where the servers' programs are. This module only looks: it installs nothing and starts no server."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SERVERS_DIRECTORY = Path(__file__).resolve().parent
CACHE_DIRECTORY = SERVERS_DIRECTORY.parents[1] / ".cache"
POM = SERVERS_DIRECTORY / "pom.xml"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
JAVA_MAJOR_MIN = 17  # Kafka 4's brokers run on nothing older


class MissingToolError(RuntimeError):
    """A program that a test server needs is not on this machine."""

    def __init__(self, tool: str) -> None:
        super().__init__(f"{tool} was not found on this machine; run `make servers` to install what the test servers need")


def find_tool(name: str) -> Path:
    """The absolute path of a program of the system, or MissingToolError.

    The running virtual environment is left out: some Python packages put a redis-server of their own version there.
    """
    own_directory = str(Path(sys.prefix) / "bin")
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder != own_directory]
    found = shutil.which(name, path=os.pathsep.join([*folders, "/usr/sbin", "/usr/local/bin"]))
    if found is None:
        raise MissingToolError(name)
    return Path(found)


def find_chromium() -> Path:
    """A Chromium or a Chrome, by any of the names that systems give them, or MissingToolError."""
    for name in CHROMIUM_NAMES:
        with contextlib.suppress(MissingToolError):
            return find_tool(name)
    raise MissingToolError(CHROMIUM_NAMES[0])


def java_major(java: Path) -> int:
    """The major version that a java program reports; 0 if it reports none (an old 1.8 says 1, which is as much too old)."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return 0
    version = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(version[1]) if version else 0


def find_java() -> Path:
    """The first Java that is new enough among JAVA_HOME, the PATH and /usr/lib/jvm, or MissingToolError."""
    candidates = [Path(os.environ["JAVA_HOME"]) / "bin" / "java"] if "JAVA_HOME" in os.environ else []
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    candidates += sorted(Path("/usr/lib/jvm").glob("*/bin/java"), reverse=True)
    return _first_new_enough(tuple(candidates))


@functools.lru_cache(maxsize=8)
def _first_new_enough(candidates: tuple[Path, ...]) -> Path:
    for java in candidates:
        if java_major(java) >= JAVA_MAJOR_MIN:
            return java
    raise MissingToolError(f"java {JAVA_MAJOR_MIN} or newer")


def kafka_version() -> str:
    """The broker's version, as pom.xml says it."""
    version = re.search(r"<kafka\.version>([^<]+)</kafka\.version>", POM.read_text(encoding="utf-8"))
    assert version is not None, f"{POM} names no <kafka.version>"
    return version[1]


def kafka_cache() -> Path:
    """Where this version's jars lie, or will lie."""
    return CACHE_DIRECTORY / "kafka" / kafka_version()


def find_kafka_jars() -> Path:
    """The folder of the broker's jars, or MissingToolError. It exists whole or not at all."""
    jars = kafka_cache()
    if not jars.is_dir():
        raise MissingToolError(f"Kafka {kafka_version()}")
    return jars
