"""Settings of one experiment as TOML that can be pasted: what reports propose. Values in, text out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from streammetrics.config.times import EPOCH
from streammetrics.experiments.policy import ProposedValue


def settings_text(experiment: str, settings: Mapping[str, ProposedValue]) -> str:
    """Return where settings belong, and the settings.

    >>> settings_text("ranker v7", {"control": "a", "start": 1_732_183_200_000})
    'under [experiments.named."ranker v7"]: control = "a" and start = 2024-11-21T10:00:00Z'
    """
    return f"under {experiment_table(experiment)}: {' and '.join(setting_lines(settings))}"


def experiment_table(experiment: str) -> str:
    """Return the head of the table of an experiment."""
    return f"[experiments.named.{_key(experiment)}]"


def setting_lines(settings: Mapping[str, ProposedValue]) -> list[str]:
    """Return settings, each a line. Shares have six digits.

    >>> setting_lines({"shares": {"control": 0.9, "b 2": 0.1}})
    ['shares = { control = 0.9, "b 2" = 0.1 }']
    """
    return [f"{name} = {_value(value)}" for name, value in settings.items()]


def _value(value: ProposedValue) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        return (EPOCH + timedelta(milliseconds=value)).isoformat().replace("+00:00", "Z")
    return f"{{ {', '.join(f'{_key(name)} = {share:.6g}' for name, share in value.items())} }}"


def _key(name: str) -> str:
    """Return a key: bare if it can be, else quoted."""
    return name if name and all(character.isascii() and (character.isalnum() or character in "-_") for character in name) else _string(name)


def _string(value: str) -> str:
    escaped = (
        f"\\u{ord(character):04x}" if character < " " or character == "\x7f" else f"\\{character}" if character in '"\\' else character
        for character in value
    )
    return f'"{"".join(escaped)}"'
