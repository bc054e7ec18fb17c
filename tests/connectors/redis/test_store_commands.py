"""The commands that `try_commit` tries are those that claims and commits send."""

from __future__ import annotations

import inspect
import re
from importlib import resources

from streammetrics.connectors import redis as package
from streammetrics.connectors.redis import keys, store


def test_every_command_of_scripts_and_commits_is_tried() -> None:
    folder = resources.files(package).joinpath("lua")
    scripts = "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())
    code = inspect.getsource(keys) + inspect.getsource(store.RedisStore)
    sent = {*re.findall(r"redis\.call\('([A-Z]+)'", scripts), *re.findall(r'"([HZ][A-Z]{2,})"', code)}
    assert sent == {name for name, *_ in store.COMMANDS}
