"""The limits and intervals of a worker. Pure values; every one comes from a setting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRules:
    """How a worker paces itself. Only `idle_ms` can change a result: it decides when an input is idle."""

    commit_ms: int = 1_000
    commit_behind_ms: int = 3_000
    """Time between commits while records wait to be read, if it is longer than `commit_ms`."""
    commit_users_max: int = 8_000
    """Users from the stream per commit. A commit may process as many due users on top.

    The number is lower when the users' totals in the last commit were large: see `CommitRoom`.
    """
    commit_bytes_max: int = 32 << 20
    """Bytes per commit: its records plus the stored state of their large users. A single larger record still fits.

    A commit may process as many bytes of due users on top.
    """
    due_with_commits: bool = False
    """Whether users that are due wait for the next commit. Otherwise the first step after a commit reads them."""
    cached_users_max: int = 200_000
    cached_bytes_max: int = 256 << 20
    """Bytes of stored state that the large users in memory may have."""
    idle_ms: int | None = 30_000
    out_of_orderness_ms: int = 5_000
    skew_ms_max: int = 3_600_000
    fenced_wait_seconds: float = 10.0
    retry_seconds_max: float = 0.0
    """How long an outage may last before the worker gives up; 0 means no limit."""
