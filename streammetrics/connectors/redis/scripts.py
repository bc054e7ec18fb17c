"""Sends the Lua scripts in `lua`. Knows no key and decodes no reply."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from redis.exceptions import NoScriptError

from streammetrics.connectors.redis.client import Client, send
from streammetrics.connectors.redis.transaction import Command


class Script:
    """A Lua script, sent by its digest. If the server does not know it (after a restart, failover, flush or slot move), it is sent whole.

    The client's own `register_script` loads a script on every primary of a cluster, and fails while one of them is away.
    """

    def __init__(self, *names: str) -> None:
        """Join the files with these names."""
        self.text = "\n".join(resources.files(__package__).joinpath("lua", name).read_text(encoding="utf-8") for name in names)
        self._digest = hashlib.sha1(self.text.encode()).hexdigest()

    def __call__(self, client: Client, keys: Sequence[str], args: Command) -> Any:
        try:
            return send(client, *self.command(keys, args))
        except NoScriptError:
            return send(client, *self.whole_command(keys, args))

    def command(self, keys: Sequence[str], args: Command) -> Command:
        """Return the command for a server that knows the script."""
        return ("EVALSHA", self._digest, len(keys), *keys, *args)

    def whole_command(self, keys: Sequence[str], args: Command) -> Command:
        """Return the command for any server, with the script's text."""
        return ("EVAL", self.text, len(keys), *keys, *args)
