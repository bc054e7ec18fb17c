"""Proposed settings as TOML: what is printed can be pasted."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.config.toml_text import settings_text


@given(st.text(min_size=1), st.lists(st.text(min_size=1), min_size=2, max_size=3, unique=True))
def test_the_printed_toml_is_valid_for_any_names(experiment: str, variants: list[str]) -> None:
    for settings in ({"shares": dict.fromkeys(variants, 0.5)}, {"control": variants[0]}):
        table, _, line = settings_text(experiment, settings).removeprefix("under ").partition("]: ")
        assert tomllib.loads(f"{table}]\n{line}") == {"experiments": {"named": {experiment: settings}}}
