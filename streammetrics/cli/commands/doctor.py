"""The options of `doctor`."""

from __future__ import annotations

from pathlib import Path

from streammetrics.cli.command import command
from streammetrics.cli.common_options import configured, load_settings


@command
@configured
def doctor(config_path: Path | None, settings_given: tuple[str, ...]) -> None:
    """Check Kafka, Redis, the stored state, recent records and the HTTP port, and say how to fix each problem.

    Reads about 100 recent records of each input topic, without joining the consumer group: their form, events, actions, times and keys.
    Changes nothing. Exit code 1 if a check fails.

    \b
    Examples:
      streammetrics doctor --config streammetrics.toml
      streammetrics doctor --set redis.url=rediss://cache:6380/0
    """
    from streammetrics.cli.doctor.doctor import examine  # noqa: PLC0415

    loaded = load_settings(config_path, settings_given)
    if not examine(loaded.settings):
        raise SystemExit(1)
