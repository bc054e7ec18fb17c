"""From a TOML file, the environment and flags to Settings: the later wins, and every problem is told at once."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from streammetrics.config.experiments import NamedExperiment
from streammetrics.config.fields import Clash, printable
from streammetrics.config.model import Settings, keys
from streammetrics.config.sources import CONFIG_VARIABLE, Given, did_you_mean, from_environment, from_file, from_flags
from streammetrics.errors import ConfigError, Problem

DEFAULT_ORIGIN = "default"


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, where each key's value comes from (every key is present), and what the operator should be told."""

    settings: Settings
    origins: Mapping[str, str]
    warnings: tuple[str, ...]


def load(
    path: Path | None, environ: Mapping[str, str], flags: Mapping[str, object], usual: Mapping[str, object] = MappingProxyType({})
) -> LoadedSettings:
    """Read the file (None: the one that STREAMMETRICS_CONFIG names, if any), the environment and the flags, in this order.

    `flags` maps dotted keys to texts or values; None means not given. A secret may come from a file that
    STREAMMETRICS_<SECTION>_<KEY>_FILE names. `usual` replaces defaults. Raises ConfigError with every problem; none holds a secret.

    >>> loaded = load(None, {"STREAMMETRICS_JOIN_GAP_MS": "1800001"}, {"http.port": 0})
    >>> loaded.settings.join.gap_ms, loaded.origins["http.port"], loaded.origins["redis.url"]
    (1800001, 'command line', 'default')
    """
    named_by = "--config"
    if path is None and environ.get(CONFIG_VARIABLE):
        path, named_by = Path(environ[CONFIG_VARIABLE]), CONFIG_VARIABLE
    layers = (from_file(path, named_by), from_environment(environ), from_flags(flags))
    given: dict[str, Given] = {key: Given(value, DEFAULT_ORIGIN) for key, value in usual.items()}
    for layer in layers:
        given |= layer.given
    problems = [problem for layer in layers for problem in layer.problems]
    problems += _field_problems(given)
    bad = {problem.key for problem in problems}
    settings, clashes = _settings({key: value for key, value in given.items() if key not in bad})
    if all(layer.is_whole for layer in layers):
        problems += [_clash_problem(clash, given) for clash in clashes if bad.isdisjoint(clash.keys)]
    if settings is None or problems:
        raise ConfigError(problems)
    origins = {key: given[key].origin if key in given else DEFAULT_ORIGIN for key in keys()}
    return LoadedSettings(settings, origins, settings.warnings)


def _field_problems(given: Mapping[str, Given]) -> list[Problem]:
    """What is wrong with single values, one problem a key, in the order of the reference."""
    try:
        Settings.model_validate(_nested(given))
    except ValidationError as error:
        rules = _rules(error.errors(include_url=False, include_input=False))
        return [Problem(key, keys()[key].shown(given[key].value), rules[key], given[key].origin) for key in keys() if key in rules]
    return []


def _settings(given: Mapping[str, Given]) -> tuple[Settings | None, Iterable[Clash]]:
    """Settings of values that are fine alone, or how they clash."""
    try:
        return Settings.model_validate(_nested(given)), ()
    except ValidationError as error:
        return None, [clash for detail in error.errors() for clash in detail["ctx"]["clashes"]]


def _nested(given: Mapping[str, Given]) -> dict[str, dict[str, object]]:
    nested: dict[str, dict[str, object]] = {}
    for key, (value, _) in given.items():
        section, _, leaf = key.partition(".")
        nested.setdefault(section, {})[leaf] = value
    return nested


def _rules(details: Iterable[ErrorDetails]) -> dict[str, str]:
    """What each bad key must be, with the reasons that its own validators give. Clashes have no key of their own."""
    reasons: dict[str, list[str]] = {}
    for key, reason in _reasons(details):
        message = reasons.setdefault(key, [])
        if reason and reason not in message:
            message.append(reason)
    return {key: "; ".join([f"must be {keys()[key].allowed}", *message]) for key, message in reasons.items()}


def _reasons(details: Iterable[ErrorDetails]) -> Iterator[tuple[str, str]]:
    for detail in details:
        if detail["type"] not in ("clash", "default_factory_not_called"):
            key, inside = ".".join(map(str, detail["loc"][:2])), ".".join(map(str, detail["loc"][2:]))
            reason = str(detail["ctx"]["error"]) if detail["type"] == "value_error" else ""
            if detail["type"] == "extra_forbidden":
                near = difflib.get_close_matches(str(detail["loc"][-1]), NamedExperiment.model_fields, 1, 0.7)
                reason = f"there is no such key{did_you_mean(near)}"
            if key in keys() and isinstance(keys()[key].default, Mapping) and inside:  # a table of tables: say which one
                reason = _told_within(detail, reason)
            yield key, reason


def _told_within(detail: ErrorDetails, reason: str) -> str:
    """A reason with the place in a table of tables that it is about: a name of it, or what stands under one."""
    *path, last = map(str, detail["loc"][2:])
    if last in ("int", "float") and detail["type"].startswith(f"{last}_"):  # told once for each kind of number that it might have been
        return f"{printable('.'.join(path))}: must be a number"
    message = reason or ("must be a table" if detail["type"] in ("model_type", "dict_type", "mapping_type") else detail["msg"])
    if last != "[key]":
        return f"{printable('.'.join([*path, last]))}: {message}"
    *above, name = path
    where = f"{printable('.'.join(above))}: " if above else ""
    return f"{where}the name {json.dumps(name, ensure_ascii=not name.isprintable())}: {'must not be empty' if not name else message}"


def _clash_problem(clash: Clash, given: Mapping[str, Given]) -> Problem:
    key = keys()[clash.keys[0]]
    value, origin = given.get(key.name, Given(key.default, DEFAULT_ORIGIN))
    return Problem(key.name, key.shown(value), clash.rule, origin)
