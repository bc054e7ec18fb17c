"""A result of a check of `doctor`. Values only."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Level: TypeAlias = Literal["ok", "warn", "fail"]


class DoctorFinding(NamedTuple):
    """One result of a check, and how to fix it if it is a problem."""

    level: Level
    text: str
    fix: str = ""
