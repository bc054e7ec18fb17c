"""Installs what the test servers need: redis-server, prometheus with promtool, Alertmanager, Chromium, npm, Java and Kafka's jars.

    python -m tests.servers.install

Installed programs are not changed. A machine without apt works if the programs are on its PATH.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.servers import apt, tools

# The default Java of some releases is too old for the broker. Then the next package is tried.
JAVA_PACKAGES = (("default-jre-headless",), ("openjdk-21-jre-headless",), ("openjdk-17-jre-headless",))


def main() -> int:
    try:
        ensure("redis-server", lambda: tools.find_tool("redis-server"), [("redis-server",)])
        ensure("prometheus", lambda: tools.find_tool("prometheus"), [("prometheus",)])
        ensure("promtool", lambda: tools.find_tool("promtool"), [("prometheus",)])
        ensure("chromium", tools.find_chromium, [("chromium", "fonts-dejavu-core"), ("chromium-browser",)])
        ensure("prometheus-alertmanager", lambda: tools.find_tool("prometheus-alertmanager"), [("prometheus-alertmanager",)])
        ensure("amtool", lambda: tools.find_tool("amtool"), [("prometheus-alertmanager",)])
        ensure("java", tools.find_java, JAVA_PACKAGES)
        ensure("systemd-analyze", lambda: tools.find_tool("systemd-analyze"), [("systemd",)])
        ensure("npm", lambda: tools.find_tool("npm"), [("npm",)])  # for the types of Grafana's dashboards
        ensure_kafka()
    except (apt.InstallError, tools.MissingToolError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def ensure(name: str, find: Callable[[], Path], choices: Sequence[tuple[str, ...]]) -> Path:
    """Return a program's path. If it is missing, install the first choice of packages that provides it. Raises InstallError."""
    with contextlib.suppress(tools.MissingToolError):
        return _say(name, find())
    failure: Exception | None = None
    for packages in choices:
        print(f"{name}: installing {' '.join(packages)}", flush=True)
        try:
            apt.install(packages)
            return _say(name, find())
        except (apt.InstallError, tools.MissingToolError) as error:
            failure = error
    raise apt.InstallError(f"{name} could not be installed, and the test servers need it: {failure}")


def ensure_kafka() -> Path:
    """Copy the broker's jars into the cache folder, all or nothing. Raises InstallError."""
    jars = tools.kafka_cache()
    label = f"kafka {tools.kafka_version()}"
    if jars.is_dir():
        return _say(label, jars)
    maven = ensure("maven", lambda: tools.find_tool("mvn"), [("maven",)])
    print(f"{label}: fetching its jars (about 45 MB)", flush=True)
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jars.parent, prefix="unfinished-") as scratch:
        _copy_jars(maven, Path(scratch))
        try:
            (Path(scratch) / "jars").rename(jars)
        except OSError:
            if not jars.is_dir():  # a simultaneous installation was faster
                raise
    return _say(label, jars)


def _copy_jars(maven: Path, scratch: Path) -> None:
    shutil.copy(tools.POM, scratch / "pom.xml")
    command: list[str | Path] = [maven, "--batch-mode", "--quiet", "--file", scratch / "pom.xml", "dependency:copy-dependencies"]
    copied = subprocess.run(
        [*command, "-DincludeScope=runtime", f"-DoutputDirectory={scratch / 'jars'}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if copied.returncode != 0 or not any((scratch / "jars").glob("kafka_*.jar")):
        raise apt.InstallError(f"Maven could not fetch Kafka's jars (can this machine reach Maven Central?):\n{copied.stdout[-3000:]}")


def _say(name: str, path: Path) -> Path:
    print(f"{name}: {path}", flush=True)
    return path


if __name__ == "__main__":
    sys.exit(main())
