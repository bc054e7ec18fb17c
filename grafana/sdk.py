"""Grafana's foundation SDK, imported once: it announces its next format at every import of the one that Grafana reads since version 8."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models import common, dashboard, prometheus, stat, statetimeline, table, text, timeseries

__all__ = [
    "JSONEncoder",
    "common",
    "dashboard",
    "prometheus",
    "register_default_plugins",
    "stat",
    "statetimeline",
    "table",
    "text",
    "timeseries",
]
