"""Passwords for the shipped Redis ACL file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

NOBODYS = "#" + "0" * 64
"""What stands in the file in place of a password's digest: nobody has a password with it."""


def with_passwords(acl: str, passwords: Mapping[str, str]) -> str:
    """The file as an operator uses it: each user's digest in place of nobody's."""
    digests = {user: hashlib.sha256(word.encode()).hexdigest() for user, word in passwords.items()}
    lines = [line.replace(NOBODYS, f"#{digests.get(line.split()[1], NOBODYS[1:])}") for line in acl.splitlines()]
    return "\n".join(lines) + "\n"
