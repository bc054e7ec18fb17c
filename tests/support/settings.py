"""Settings for tests: load them from text and flags, and read the problems of invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from streammetrics.config import LoadedSettings, hash_password, load
from streammetrics.errors import ConfigError, Problem
from tests.support.paths import ROOT

DEPLOY = ROOT / "deploy"
REFERENCE = DEPLOY / "streammetrics.toml"
SECRET = "hunter2-тайна"
PASSWORD_HASH = hash_password("open sesame", cost=10)
SASL = {
    "kafka.security_protocol": "SASL_SSL",
    "kafka.sasl_mechanism": "PLAIN",
    "kafka.sasl_username": "sm",
    "kafka.sasl_password": SECRET,
}
NAMED = """
[experiments]
margin = 0.02
paging = ["ndcg@10"]
[experiments.named.ranker-v7]
control = "old"
shares = { old = 1, new = 3 }
start = 2026-01-31T09:00:00Z
end = "2026-03-01T00:00:00+01:00"
alpha = 0.01
"""
"""A file with one named experiment."""


def configured(tmp_path: Path, toml: str = "", environ: dict[str, str] | None = None, **flags: object) -> LoadedSettings:
    path = tmp_path / "streammetrics.toml"
    path.write_text(toml)
    return load(path, environ or {}, {key.replace("__", "."): value for key, value in flags.items()})


def by_flags(flags: dict[str, object]) -> LoadedSettings:
    return load(None, {}, flags)


def problems_of(
    path: Path | None = None, environ: dict[str, str] | None = None, flags: dict[str, object] | None = None
) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        load(path, environ or {}, flags or {})
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value)
    return caught.value.problems


def problem_of(**given: object) -> Problem:
    """Return the only problem of some flags; `kafka__topics` stands for kafka.topics."""
    (problem,) = problems_of(flags={key.replace("__", "."): value for key, value in given.items()})
    return problem
