"""What is missing is said before Spark fails in its own way."""

from __future__ import annotations

from pathlib import Path

import pytest

from streammetrics import spark
from streammetrics.errors import ConfigError
from streammetrics.offline.spark import session
from streammetrics.offline.spark.session import reason, require_spark
from tests.support.command_line import called


def test_missing_packages_are_named_with_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pyspark.*is not installed: pip install 'streammetrics\[spark\]'\npyarrow"):
        spark.replay(tmp_path)
    done = called("spark", tmp_path, "--report", tmp_path / "report")
    assert (done.returncode, "pip install 'streammetrics[spark]'" in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize("home", [None, "nowhere"])
def test_a_missing_java_is_named(home: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", home)
    with pytest.raises(ConfigError, match=r"JAVA_HOME = .*install Java 17 or newer"):
        require_spark()
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    require_spark()


def test_the_reason_of_an_error_is_one_line() -> None:
    assert reason(Exception("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03;\n\tat org.apache")).startswith(
        "[PATH_NOT_FOUND]"
    )
    assert reason(Exception("")) == "Exception"


def test_shards_are_checked(tmp_path: Path) -> None:
    done = called("spark", tmp_path, "--shards", "0")
    assert (done.returncode, "--shards" in done.stderr) == (2, True)
