"""Errors for a task whose keys have another layout, or are incomplete. Sends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streammetrics.connectors.redis.keys import LAYOUT_VERSION
from streammetrics.connectors.store import lost_state
from streammetrics.errors import StateError


def require_complete(task: int, namespace: str, reply: Sequence[Any]) -> None:
    """Raise StateError if `claim.lua` or `view.lua` replied with a problem instead of the task's state."""
    version, *keys = reply
    if not keys and version is None:
        raise lost_state(task)
    if not keys:
        raise StateError(
            f"the keys of task {task} in redis.namespace = {namespace} have layout {version.decode()}, and this version reads layout "
            f"{LAYOUT_VERSION}",
            "run the version that wrote them, or start again with a new redis.namespace",
        )
    if len(reply) == 2:
        names = [key.decode() for key in keys[0]]
        raise lost_keys(task, names) if version is not None else _left_over_keys(task, names, namespace)


def lost_keys(task: int, keys: Sequence[str]) -> StateError:
    """Return the error for a task with missing keys."""
    return StateError(
        f"Redis has lost a part of the state of task {task}: {_listed(keys)} missing (evicted, or deleted by hand). Without it all later "
        "counts would be wrong",
        "restore the state from a backup, or start again with a new redis.namespace",
    )


def _left_over_keys(task: int, keys: Sequence[str], namespace: str) -> StateError:
    return StateError(
        f"Redis holds only a part of the state of task {task}: {_listed(keys)} present, but the key with its offsets is missing. Either a "
        "deletion was interrupted, or Redis has lost the key",
        f"delete the rest with `streammetrics namespaces delete {namespace}`, or restore all of it from a backup",
    )


def _listed(keys: Sequence[str]) -> str:
    """List keys, with the verb.

    >>> _listed(["{sm:0}:due"]), _listed(["{sm:0}:due", "{sm:0}:rows"])
    ('{sm:0}:due is', '{sm:0}:due, {sm:0}:rows are')
    """
    return f"{', '.join(keys)} {'is' if len(keys) == 1 else 'are'}"
