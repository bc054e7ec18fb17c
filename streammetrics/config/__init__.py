"""Configuration: reads a TOML file, the environment and flags, validates them, and returns frozen Settings.

A flag wins over the environment, and the environment wins over the file. The file path, the environment and the flags are
arguments: nothing here reads them from the process.
"""

from __future__ import annotations

from streammetrics.config.fields import MaskedUrl, mask_url
from streammetrics.config.load import LoadedSettings, load
from streammetrics.config.model import Settings, environment_name, keys
from streammetrics.config.password_hash import PasswordHash, hash_password, read_htpasswd
from streammetrics.config.reference import minimal_toml, reference_toml, render_effective
from streammetrics.config.times import Duration

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
    "minimal_toml",
    "read_htpasswd",
    "reference_toml",
    "render_effective",
]
