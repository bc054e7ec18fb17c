"""The three sources of settings: file, environment and flags. Each becomes values by dotted key, not yet validated or merged."""

from __future__ import annotations

import codecs
import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from streammetrics.config.fields import MASK, printable, value_text
from streammetrics.config.model import PREFIX, Settings, environment_name, keys
from streammetrics.errors import Problem

CONFIG_VARIABLE = PREFIX + "CONFIG"
"""Environment variable with the path of the configuration file."""

WHOLE_MIN, WHOLE_MAX = -(2**63), 2**63 - 1
"""Range of integers in TOML. The parser accepts larger ones, but Python cannot always convert or print those."""

FILE_BYTES_MAX = 1_048_576
SECRET_BYTES_MAX = 65_536

_SERVICE_LINK = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_\w+)?)")


class GivenValue(NamedTuple):
    """A value as it was given, and its origin."""

    value: object
    origin: str


@dataclass(slots=True)
class Layer:
    """The values of one source by dotted key, and its problems. `is_complete` is False if the source could not be read."""

    given: dict[str, GivenValue] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    is_complete: bool = True

    def add(self, key: str, value: object, origin: str) -> None:
        if key in keys():
            self.given[key] = GivenValue(value, origin)
        elif key in Settings.model_fields:
            self.problems.append(Problem(key, MASK, f"must be a table: write [{key}] with its keys below it", origin))
        else:
            self.problems.append(Problem(printable(key), MASK, f"unknown key{_suggestion(key)}", origin))


def from_file(path: Path | None, named_by: str) -> Layer:
    """Read a TOML file. If the file cannot be used, its problem is reported for `named_by`: the option or variable that named it."""
    if path is None:
        return Layer()
    try:
        document = tomllib.loads(_content(path, FILE_BYTES_MAX))
    except OSError as error:
        return _unread(named_by, path, f"the file cannot be read: {error.strerror or error}; name a readable TOML file")
    except tomllib.TOMLDecodeError as error:
        return _unread(named_by, path, f"the file is not TOML: {error}; correct that line (strings need quotes, a table is written [name])")
    except ValueError as error:
        return _unread(named_by, path, f"the file cannot be used: {error}")
    except RecursionError:
        return _unread(named_by, path, "the file cannot be used: its arrays or tables are nested too deeply")
    layer, origin = Layer(), f"file {printable(str(path))}"
    for key, given in _flat(document):
        value = _beside(path, given) if key == "events.reader" else given
        if key in keys() and not _holds_64_bits(value):
            layer.problems.append(Problem(key, MASK, f"a whole number in TOML must be from {WHOLE_MIN} to {WHOLE_MAX}", origin))
        else:
            layer.add(key, value, origin)
    return layer


def from_environment(environ: Mapping[str, str]) -> Layer:
    """Read the variables that begin with STREAMMETRICS_, and the secrets' files that …_FILE variables name."""
    layer = Layer()
    names = {environment_name(key): key for key in keys()}
    files = {f"{name}_FILE": key for name, key in names.items() if keys()[key].is_secret}
    for name in sorted(name for name in environ if name.startswith(PREFIX) and name != CONFIG_VARIABLE):
        if _is_service_link(name, environ[name]):
            continue
        if name in names:
            layer.add(names[name], environ[name], f"environment {name}")
        elif name in files:
            _add_secret(layer, files[name], name, environ)
        else:
            layer.problems.append(Problem(printable(name), MASK, _unknown_variable(name, [*names, *files]), "environment"))
    return layer


def from_flags(flags: Mapping[str, object]) -> Layer:
    """Read flags by dotted key; None means not given."""
    layer = Layer()
    for key, value in flags.items():
        if value is not None:
            layer.add(key, value, "command line")
    return layer


def _content(path: Path, bytes_max: int) -> str:
    with path.open("rb") as stream:
        content = stream.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise ValueError(f"it has more than {bytes_max} bytes")
    content = content.removeprefix(codecs.BOM_UTF8)  # some editors add it
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"it is not UTF-8 text (line {line}); save it as UTF-8") from None


def _unread(named_by: str, path: Path, rule: str) -> Layer:
    return Layer(problems=[Problem(named_by, value_text(str(path)), rule)], is_complete=False)


def _flat(document: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for section, content in document.items():
        if not isinstance(content, dict) or not (content or section in Settings.model_fields):
            yield section, content
        else:
            yield from ((f"{section}.{leaf}", value) for leaf, value in content.items())


def _beside(path: Path, value: object) -> object:
    """Return the reader of a file, or a table of readers, with paths from the folder of the configuration."""
    if isinstance(value, dict):
        return {name: _beside(path, item) for name, item in value.items()}
    if isinstance(value, str) and value.rpartition(":")[0].endswith(".py"):
        return str(path.absolute().parent / value)
    return value


def _holds_64_bits(value: object) -> bool:
    """Return whether every integer in a value is within the range of TOML."""
    waiting = [value]  # a loop, not recursion: dotted names can nest deeply
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict | list):
            waiting.extend(item.values() if isinstance(item, dict) else item)
        elif isinstance(item, int) and not WHOLE_MIN <= item <= WHOLE_MAX:
            return False
    return True


def _add_secret(layer: Layer, key: str, name: str, environ: Mapping[str, str]) -> None:
    path, origin = environ[name], f"environment {name}"
    if environment_name(key) in environ:
        layer.problems.append(Problem(key, value_text(path), f"{environment_name(key)} is set too; keep one of them", origin))
        return
    if not path:
        layer.problems.append(
            Problem(key, value_text(path), "must name the file with the secret; unset the variable if there is none", origin)
        )
        return
    try:
        layer.add(key, _secret(Path(path)), f"file {printable(path)}, {origin}")
    except OSError as error:
        layer.problems.append(Problem(key, value_text(path), f"the file with the secret cannot be read: {error.strerror or error}", origin))
    except ValueError as error:
        layer.problems.append(Problem(key, value_text(path), f"the file with the secret cannot be used: {error}", origin))


def _secret(path: Path) -> str:
    """Return the only line of a file with a secret, without its line end."""
    text = _content(path, SECRET_BYTES_MAX).removesuffix("\n").removesuffix("\r")
    if not text or "\n" in text:
        raise ValueError("it must contain exactly one non-empty line")
    return text


def _is_service_link(name: str, value: str) -> bool:
    """Return whether Kubernetes set this variable, for a service named streammetrics or streammetrics-…."""
    return bool(_SERVICE_LINK.fullmatch(name)) or (name.endswith("_PORT") and "://" in value)


def _unknown_variable(name: str, variables: list[str]) -> str:
    value_name = name.removesuffix("_FILE")
    if value_name != name and value_name in variables:
        return f"only secrets can be read from a file; give the value in {value_name}"
    near = difflib.get_close_matches(name, variables, 1, 0.8)
    return f"unknown variable{did_you_mean(near)}"


def _suggestion(key: str) -> str:
    """Suggest a correction for an unknown key: its parent key, a similar key, or the same name in another table."""
    leaf = key.rpartition(".")[2]
    if parent := next((name for name in keys() if key.startswith(f"{name}.")), None):
        return f"; {parent} is {keys()[parent].allowed}"
    near = difflib.get_close_matches(key, keys(), 1, 0.8)
    near += [name for name, key in keys().items() if key.leaf == leaf]
    if not near and key.startswith("experiments."):
        return f"; rules of one experiment go below [experiments.named.{printable(leaf)}]"
    if "." not in key:
        near += [f"[{name}]" for name in difflib.get_close_matches(key, Settings.model_fields, 1, 0.7)]
    return did_you_mean(near)


def did_you_mean(near: Sequence[str]) -> str:
    """Return the end of a message about an unknown name. `near` are similar names, the closest first.

    >>> did_you_mean(["join.gap_ms"]), did_you_mean([])
    ('; did you mean join.gap_ms?', '')
    """
    return f"; did you mean {near[0]}?" if near else ""
