"""Configuration: one TOML file < the environment < flags -> frozen Settings. Everything outside comes in as an argument."""

from __future__ import annotations

from streammetrics.config.fields import Duration, MaskedUrl, mask_url
from streammetrics.config.load import LoadedSettings, load
from streammetrics.config.model import Settings, environment_name, keys
from streammetrics.config.password_hash import PasswordHash, hash_password
from streammetrics.config.reference import reference_toml, render_effective

__all__ = [
    "Duration",
    "LoadedSettings",
    "MaskedUrl",
    "PasswordHash",
    "Settings",
    "environment_name",
    "hash_password",
    "keys",
    "load",
    "mask_url",
    "reference_toml",
    "render_effective",
]
