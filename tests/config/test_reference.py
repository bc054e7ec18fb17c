"""Tests of the reference file and of the effective settings as TOML."""

from __future__ import annotations

import tomllib

from streammetrics.config import (
    Settings,
    environment_name,
    keys,
    load,
    reference_toml,
    render_effective,
)
from tests.support.settings import NAMED, REFERENCE, SECRET, by_flags, configured


def test_a_path_with_a_line_break_is_rendered_on_one_line(tmp_path):
    path = tmp_path / "two\nlines.toml"
    path.write_text("[http]\nport = 5\n")
    assert tomllib.loads(render_effective(load(path, {}, {})))["http"]["port"] == 5


def test_the_committed_reference_file_is_up_to_date():
    assert REFERENCE.read_text() == reference_toml(whole=True), "run: python -m streammetrics.config > deploy/streammetrics.toml"


def test_the_reference_file_has_every_key_with_its_default():
    loaded = load(REFERENCE, {}, {})
    assert loaded.settings == Settings()
    from_default = {key for key, origin in loaded.origins.items() if origin == "default"}
    assert from_default == {"windows.retention_ms"}


def test_the_commented_value_in_the_reference_file_is_the_default():
    assert f"#retention_ms = {Settings().windows.retention_ms:_}\n" in reference_toml(whole=True)


def test_every_key_has_a_description_and_allowed_values():
    for key, setting in keys().items():
        assert setting.description.endswith((".", ".)")), key
        assert setting.allowed, key
        assert (setting.allowed == "true or false") == isinstance(setting.default, bool), key
        assert environment_name(key) in reference_toml(whole=True)


def test_the_effective_settings_can_be_loaded_again(tmp_path):
    flags = {
        "join.future_ms": "off",
        "kafka.topics": "a",
        "windows.windows": "90000,3m",
        "windows.pane_ms": 30_000,
        "metrics.relevant_grade": 0.5,
    }
    flags |= {"kafka.group_id": 'q"\\u00e9é', "worker.role": "exporter"}
    loaded = by_flags(flags)
    again = by_flags(
        {
            f"{section}.{leaf}": value
            for section, leaves in tomllib.loads(render_effective(loaded)).items()
            for leaf, value in leaves.items()
        }
    )
    assert again.settings == loaded.settings


def test_the_effective_settings_show_every_origin(tmp_path):
    loaded = configured(tmp_path, "[join]\ngap_ms = 2000000\n", {"STREAMMETRICS_HTTP_PORT": "80"}, log__level="debug")
    lines = render_effective(loaded).splitlines()
    assert f"gap_ms = 2_000_000  # file {tmp_path}/streammetrics.toml" in lines
    assert "port = 80  # environment STREAMMETRICS_HTTP_PORT" in lines
    assert 'level = "debug"  # command line' in lines
    assert 'role = "all"  # default' in lines
    assert len([line for line in lines if "  # " in line]) == len(keys())


def test_the_effective_settings_mask_secrets():
    document = tomllib.loads(render_effective(by_flags({"redis.password": SECRET, "redis.url": "redis://cache:1/0"})))
    assert (document["redis"]["password"], document["redis"]["url"], document["kafka"]["sasl_password"]) == ("***", "redis://cache:1/0", "")


def test_the_effective_settings_show_experiments_as_toml(tmp_path):
    text = render_effective(configured(tmp_path, NAMED))
    named_experiments = tomllib.loads(text)["experiments"]["named"]
    assert named_experiments["ranker-v7"]["shares"] == {"old": 1, "new": 3}
    assert tomllib.loads(text)["experiments"]["margin"] == 0.02
