"""Passwords for the shipped Redis ACL file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

NO_PASSWORD = "#" + "0" * 64
"""The placeholder for a password digest in the shipped file. No password has this digest."""


def with_passwords(acl: str, passwords: Mapping[str, str]) -> str:
    """Return the file with the digest of each user's password instead of the placeholder."""
    digests = {user: hashlib.sha256(word.encode()).hexdigest() for user, word in passwords.items()}
    lines = [line.replace(NO_PASSWORD, f"#{digests.get(line.split()[1], NO_PASSWORD[1:])}") for line in acl.splitlines()]
    return "\n".join(lines) + "\n"
