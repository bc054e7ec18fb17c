"""The mappings that ship with the package, as TOML files in the folder `presets`. They are examples to copy, too."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from streammetrics.events.mappings.rules import MappingRule, Preset, parse_mappings


@cache
def preset_text(name: Preset) -> str:
    """Return the TOML text of a preset."""
    return files("streammetrics.events.mappings").joinpath("presets", f"{name}.toml").read_text(encoding="utf-8")


@cache
def preset_tables(name: Preset) -> tuple[Mapping[str, Any], ...]:
    """Return the tables of a preset, as a configuration would have them."""
    return tuple(tomllib.loads(preset_text(name))["events"]["mappings"])


@cache
def preset_rules(name: Preset) -> tuple[MappingRule, ...]:
    """Return the mappings of a preset.

    >>> [rule.kind for rule in preset_rules("metarank")]
    ['impression', 'feedback', 'ignore']
    """
    return parse_mappings(preset_tables(name))


@cache
def preset_digest(name: Preset) -> str:
    """Return a short digest of a preset's mappings. Stored state carries it, because another version may change a preset."""
    return hashlib.sha256(repr(preset_tables(name)).encode()).hexdigest()[:12]
