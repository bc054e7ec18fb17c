"""Load Settings from a TOML file, the environment and flags. The later source wins; all problems are reported together."""

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
from streammetrics.config.fields import Conflict, printable
from streammetrics.config.model import Settings, keys
from streammetrics.config.sources import CONFIG_VARIABLE, GivenValue, did_you_mean, from_environment, from_file, from_flags
from streammetrics.errors import ConfigError, Problem

DEFAULT_ORIGIN = "default"


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, the origin of every key's value, and warnings for the operator."""

    settings: Settings
    origins: Mapping[str, str]
    warnings: tuple[str, ...]


def load(
    path: Path | None, environ: Mapping[str, str], flags: Mapping[str, object], defaults: Mapping[str, object] = MappingProxyType({})
) -> LoadedSettings:
    """Read the file, the environment and the flags, in this order; without `path`, the file that STREAMMETRICS_CONFIG names.

    `flags` maps dotted keys to strings or values; None means not given. STREAMMETRICS_<SECTION>_<KEY>_FILE may name a file with
    a secret. `defaults` replaces some defaults. Raises ConfigError with every problem; no message contains a secret.

    >>> loaded = load(None, {"STREAMMETRICS_JOIN_GAP_MS": "1800001"}, {"http.port": 0})
    >>> loaded.settings.join.gap_ms, loaded.origins["http.port"], loaded.origins["redis.url"]
    (1800001, 'command line', 'default')
    """
    named_by = "--config"
    if path is None and environ.get(CONFIG_VARIABLE):
        path, named_by = Path(environ[CONFIG_VARIABLE]), CONFIG_VARIABLE
    layers = (from_file(path, named_by), from_environment(environ), from_flags(flags))
    given: dict[str, GivenValue] = {key: GivenValue(value, DEFAULT_ORIGIN) for key, value in defaults.items()}
    for layer in layers:
        given |= layer.given
    problems = [problem for layer in layers for problem in layer.problems]
    problems += _field_problems(given)
    invalid = {problem.key for problem in problems}
    settings, conflicts = _settings({key: value for key, value in given.items() if key not in invalid})
    if all(layer.is_complete for layer in layers):
        problems += [_conflict_problem(conflict, given) for conflict in conflicts if invalid.isdisjoint(conflict.keys)]
    if settings is None or problems:
        raise ConfigError(problems)
    origins = {key: given[key].origin if key in given else DEFAULT_ORIGIN for key in keys()}
    return LoadedSettings(settings, origins, settings.warnings)


def _field_problems(given: Mapping[str, GivenValue]) -> list[Problem]:
    """Return the problems of single values, one per key, in the order of the reference file."""
    try:
        Settings.model_validate(_nested(given))
    except ValidationError as error:
        rules = _rules(error.errors(include_url=False, include_input=False))
        return [Problem(key, keys()[key].value_text(given[key].value), rules[key], given[key].origin) for key in keys() if key in rules]
    return []


def _settings(given: Mapping[str, GivenValue]) -> tuple[Settings | None, Iterable[Conflict]]:
    """Build Settings from values that are valid alone; return their conflicts if they contradict each other."""
    try:
        return Settings.model_validate(_nested(given)), ()
    except ValidationError as error:
        return None, [conflict for detail in error.errors() for conflict in detail["ctx"]["conflicts"]]


def _nested(given: Mapping[str, GivenValue]) -> dict[str, dict[str, object]]:
    nested: dict[str, dict[str, object]] = {}
    for key, (value, _) in given.items():
        section, _, leaf = key.partition(".")
        nested.setdefault(section, {})[leaf] = value
    return nested


def _rules(details: Iterable[ErrorDetails]) -> dict[str, str]:
    """Return the rule of each invalid key, with the reasons from its validators."""
    reasons: dict[str, list[str]] = {}
    for key, reason in _reasons(details):
        of_key = reasons.setdefault(key, [])
        if reason and reason not in of_key:
            of_key.append(reason)
    rules = {key: of_key if _has_places(key) and of_key else [f"must be {keys()[key].allowed}", *of_key] for key, of_key in reasons.items()}
    return {key: "; ".join(rule) for key, rule in rules.items()}


def _has_places(key: str) -> bool:
    """Whether a setting is a table of tables. The reasons of its problems say where they are, which says enough."""
    return key in keys() and isinstance(keys()[key].default, Mapping)


def _reasons(details: Iterable[ErrorDetails]) -> Iterator[tuple[str, str]]:
    """Yield (key, reason) pairs; conflicts are skipped, because they are reported separately."""
    for detail in details:
        if detail["type"] not in ("conflict", "default_factory_not_called"):
            key, inside = ".".join(map(str, detail["loc"][:2])), ".".join(map(str, detail["loc"][2:]))
            reason = str(detail["ctx"]["error"]) if detail["type"] == "value_error" else ""
            if detail["type"] == "extra_forbidden":
                sections = NamedExperiment
                near = did_you_mean(difflib.get_close_matches(str(detail["loc"][-1]), sections.model_fields, 1, 0.7))
                reason = f"unknown key{near or '; the keys are ' + ', '.join(sections.model_fields)}"
            if _has_places(key) and inside:
                reason = _with_place(detail, reason)
            yield key, reason


def _with_place(detail: ErrorDetails, reason: str) -> str:
    """Prefix a reason with its place in a table of tables: the path of a value, or a name that is not allowed."""
    *path, last = map(str, detail["loc"][2:])
    if last in ("int", "float") and detail["type"].startswith(f"{last}_"):  # pydantic reports one error per number type
        return f"{printable('.'.join(path))}: must be a number"
    message = reason or ("must be a table" if detail["type"] in ("model_type", "dict_type", "mapping_type") else detail["msg"])
    if last != "[key]":
        return f"{printable('.'.join([*path, last]))}: {message}"
    *above, name = path
    where = f"{printable('.'.join(above))}: " if above else ""
    return f"{where}the name {json.dumps(name, ensure_ascii=not name.isprintable())}: {'must not be empty' if not name else message}"


def _conflict_problem(conflict: Conflict, given: Mapping[str, GivenValue]) -> Problem:
    key = keys()[conflict.keys[0]]
    value, origin = given.get(key.name, GivenValue(key.default, DEFAULT_ORIGIN))
    return Problem(key.name, key.value_text(value), conflict.rule, origin)
