"""The version. Packaging, `--version`, the report and `streammetrics_build_info` read it from here."""

__version__ = "0.1.0"
