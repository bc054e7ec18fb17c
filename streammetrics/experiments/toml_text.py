"""Settings of an experiment as TOML that can be pasted. Values in, text out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from streammetrics.experiments.stages import Stage


def under(experiment: str, *settings: str, stage: str | None = None) -> str:
    """Return where settings belong, and the settings, each a line of TOML. stage: the name of the stage that they belong to.

    >>> under("ranker v7", 'control = "a"')
    'under [experiments.named."ranker v7"]: control = "a"'
    """
    where = f"[experiments.named.{toml_key(experiment)}]" + ("" if stage is None else f", in stage {stage}")
    return f"under {where}: {' and '.join(settings)}"


def shares_text(shares: Mapping[str, float]) -> str:
    """Return shares as TOML, with six digits.

    >>> shares_text({"control": 0.9, "b 2": 0.1})
    'shares = { control = 0.9, "b 2" = 0.1 }'
    """
    return f"shares = {{ {', '.join(f'{toml_key(name)} = {share:.6g}' for name, share in shares.items())} }}"


def stages_text(stages: Iterable[Stage]) -> str:
    """Return stages as one line of TOML.

    >>> stages_text([Stage(name="half", shares={"control": 1, "new": 1}, start_ms=1_732_183_200_000)])
    'stages = [ { name = "half", start = 2024-11-21T10:00:00Z, shares = { control = 1, new = 1 } } ]'
    """
    tables = []
    for stage in stages:
        start = "" if stage.start_ms is None else f"start = {time_text(stage.start_ms)}, "
        tables.append(f"{{ name = {toml_string(stage.name)}, {start}{shares_text(stage.shares)} }}")
    return f"stages = [ {', '.join(tables)} ]"


def time_text(at_ms: int) -> str:
    """Return a time (epoch ms) as TOML, in UTC.

    >>> time_text(1_732_183_200_000), time_text(1_732_183_200_250)
    ('2024-11-21T10:00:00Z', '2024-11-21T10:00:00.250000Z')
    """
    seconds, ms = divmod(at_ms, 1_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=1_000 * ms).isoformat().replace("+00:00", "Z")


def toml_key(name: str) -> str:
    """Return a key: bare if it can be, else quoted."""
    return name if name and all(each.isascii() and (each.isalnum() or each in "-_") for each in name) else toml_string(name)


def toml_string(value: str) -> str:
    """Return a basic string."""
    escaped = (f"\\u{ord(each):04x}" if each < " " or each == "\x7f" else f"\\{each}" if each in '"\\' else each for each in value)
    return f'"{"".join(escaped)}"'
