"""Settings as TOML text: the documented reference file, and the effective settings with their origins. Secrets are masked."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Final

from pydantic import BaseModel

from streammetrics.config.load import LoadedSettings
from streammetrics.config.model import SettingKey, Settings, environment_name, keys
from streammetrics.config.sources import CONFIG_VARIABLE

MINIMAL: Final[Mapping[str, str]] = {
    "kafka.bootstrap_servers": "your brokers",
    "kafka.topics": "the topics with lists and feedback",
    "kafka.dead_letter_topic": "where refused events go",
    "redis.url": "your Redis",
    "join.grades": "what each action of your feedback is worth",
}
"""The settings of a first configuration, each with what to write there."""

COMMON: Final[Mapping[str, str]] = {
    "kafka.bootstrap_servers": "Always.",
    "kafka.topics": "Always, unless your topics have these names.",
    "kafka.group_id": "For a second system on the same brokers.",
    "kafka.dead_letter_topic": "To name the topic as your others.",
    "kafka.results_topic": "To send results to a warehouse or another service.",
    "kafka.start": "To leave out the history that the topics hold.",
    "kafka.security_protocol": "If your brokers need TLS or a login. Then also the kafka.ssl_ and kafka.sasl_ settings that they ask for.",
    "redis.url": "Always.",
    "redis.cluster": "If your Redis is a cluster.",
    "redis.namespace": "For a second system in the same Redis, or to start again from nothing.",
    "events.reader": "If your events are not in the native format. `streammetrics config --reader` prints one to start from.",
    "join.grades": "To say what each action is worth. Results depend on it most.",
    "join.gap_ms": "If a visit of your users pauses for longer, or if visits follow each other sooner.",
    "join.attribution_ms": "If feedback comes later than this after its list, such as purchases.",
    "join.lateness_ms": "If `streammetrics_late_total` grows.",
    "metrics.names": "To compute other metrics.",
    "metrics.cutoffs": "If your users see more or fewer places at once.",
    "metrics.gain": "If a high grade is worth much more than a low one: exp2.",
    "engagement.names": "To watch lists without clicks, times to a click or purchases.",
    "windows.windows": "To look at shorter or longer times.",
    "windows.segments": "To see numbers for each surface, country or device.",
    "exposures.enabled": "If exposures, and not lists, say who is in which variant.",
    "experiments.paging": "To decide experiments by another metric.",
    "experiments.margin": "To tolerate a larger or smaller drop.",
    "experiments.named": "If an experiment has other shares or another control.",
    "worker.processes": "If one core does not keep up.",
    "http.host": "To let Prometheus or people reach the port from other machines.",
    "http.password_hash": "To ask for a password. Then also http.username.",
}
"""When to change the settings that people do change."""


_WIDTH = 110
_UNDERSCORES_FROM = 10_000
_HEAD_OF_ALL = "The reference configuration of streammetrics: every key with its default."
_HEAD_OF_COMMON = f"""\
The {len(COMMON)} settings of streammetrics that people change, each with its default.
`streammetrics config --reference --all` has every setting."""
_HEAD = f"""

Keep the keys that you change and delete the rest. An environment variable wins over this file, and a flag of the command wins over both.
In the environment, separate the values of a list by commas. Names that end in _ms are whole milliseconds.
Without --config, a command reads the file that {CONFIG_VARIABLE} names. `streammetrics check-config` reports all errors of a configuration.
"""


def minimal_toml() -> str:
    """Return the settings of a first configuration. All others have defaults that may stay."""

    def line(key: SettingKey) -> Iterator[str]:
        yield f"{key.leaf} = {_toml(key.default, key)}  # {MINIMAL[key.name]}"

    return _document(line, lambda section: (), MINIMAL)


def render_effective(loaded: LoadedSettings) -> str:
    """Return every key with its value and its origin as a TOML document. Secrets, and users in URLs, are masked."""

    def line(key: SettingKey) -> Iterator[str]:
        value = getattr(getattr(loaded.settings, key.section), key.leaf)
        yield f"{key.leaf} = {_toml(value, key)}  # {loaded.origins[key.name]}"

    return _document(line, lambda section: ())


def reference_toml(*, whole: bool) -> str:
    """Return the reference file: keys with description, allowed values, environment variable and default.

    whole: every key. Otherwise those that people change, each with when to do so.
    """
    head = _HEAD_OF_ALL if whole else _HEAD_OF_COMMON
    names = keys() if whole else COMMON
    return _comment(head + _HEAD) + "\n" + _document(partial(_reference, whole=whole), _introduction, names)


def _introduction(section: str) -> list[str]:
    return [_comment(Settings.model_fields[section].description or "").rstrip()]


def _document(
    lines: Callable[[SettingKey], Iterable[str]], introduction: Callable[[str], Iterable[str]], names: Collection[str] | None = None
) -> str:
    """Return the sections with lines for each key; `names`: of these keys only."""
    blocks = []
    for section in Settings.model_fields:
        wanted = [key for name, key in keys().items() if key.section == section and (names is None or name in names)]
        if wanted:
            body = [line for key in wanted for line in lines(key)]
            blocks.append("\n".join([*introduction(section), f"[{section}]", *body]) + "\n")
    return "\n".join(blocks)


def _reference(key: SettingKey, *, whole: bool) -> Iterator[str]:
    variable = environment_name(key.name)
    yield ""
    yield _comment(key.description).rstrip()
    if not whole:
        yield _comment(f"When to change it: {COMMON[key.name]}").rstrip()
    yield _comment(f"Allowed: {key.allowed}.").rstrip()
    yield f"# Environment: {variable}" + (f", or {variable}_FILE with the path of a file that contains it" if key.is_secret else "")
    if key.default_text:
        yield f"# Default: {key.default_text}."
    yield ("#" if key.default_text else "") + f"{key.leaf} = {_toml(key.default, key)}"


def _comment(text: str) -> str:
    lines = [line for paragraph in text.splitlines() for line in textwrap.wrap(paragraph, _WIDTH, break_on_hyphens=False) or [""]]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _toml(value: object, key: SettingKey) -> str:
    """Return a value as TOML. No value is written as "" (or "off", for join.future_ms)."""
    if value is None:
        return '""' if "empty" in key.allowed else '"off"'
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(item, key) for item in value)}]"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_toml(name, key)} = {_toml(held, key)}" for name, held in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, BaseModel):
        return _toml({name: held for name, held in value if held is not None}, key)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:_}" if value >= _UNDERSCORES_FROM else str(value)
    text = key.value_text(value) if key.is_secret else str(value)
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
