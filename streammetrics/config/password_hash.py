"""Password hashes of the HTTP port: bcrypt, as in htpasswd files. Handles no logins.

bcrypt reads 72 bytes of a password and ends it at a NUL byte. So that no two passwords are one, longer ones and those with a NUL byte
are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import bcrypt

from streammetrics.errors import ConfigError, Problem

COST: Final = 12
"""The cost of new hashes: 2^12 rounds, about a quarter of a second per attempt."""
COST_WEAK: Final = 10
"""Costs below this are accepted with a warning. `htpasswd -B` has 5 by default."""
COST_MIN, COST_MAX = 4, 15
PASSWORD_BYTES_MAX: Final = 72
HTPASSWD_BYTES_MAX: Final = 1_048_576
USERS_MAX: Final = 1_000
"""Users of a file: more than people who read one port."""
_TEXT: Final = re.compile(r"\$2[aby]\$([0-9]{2})\$([./A-Za-z0-9]{22})[./A-Za-z0-9]{31}")


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """A checked bcrypt hash. `repr` shows only its cost.

    >>> stored = PasswordHash.parse(hash_password("open sesame"))
    >>> stored.matches(b"open sesame"), stored.matches(b"open barley")
    (True, False)
    """

    cost: int
    text: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        """Read a hash. Raises ValueError for another form or a cost outside the allowed range; no message contains the hash."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError("is no bcrypt hash, such as $2b$12$… with 60 characters; `streammetrics hash-password` prints one")
        cost = int(match[1])
        if not COST_MIN <= cost <= COST_MAX:
            raise ValueError(f"the cost, which is the number after $2b$, must be from {COST_MIN} to {COST_MAX}")
        try:
            bcrypt.hashpw(b"", f"$2b${COST_MIN:02}${match[2]}".encode())  # cheap: it reads the salt only
        except ValueError:
            raise ValueError("the salt of the bcrypt hash cannot be read; copy the whole hash") from None
        return cls(cost, text.encode())

    def matches(self, password: bytes) -> bool:
        """Check a password, in UTF-8, in constant time. Releases the interpreter lock while it computes.

        A password that `hash_password` refuses never matches. It costs the same time.
        """
        equal = bcrypt.checkpw(password[:PASSWORD_BYTES_MAX], self.text)
        return equal and b"\0" not in password and len(password) <= PASSWORD_BYTES_MAX


def hash_password(password: str, cost: int = COST) -> str:
    """Hash a password with a new salt, for http.password_hash or an htpasswd file.

    Raises ValueError if it is empty, has unprintable characters, or has more than 72 bytes in UTF-8.

    >>> hash_password("open sesame", cost=4)[:7]
    '$2b$04$'
    """
    if not password or not password.isprintable():
        raise ValueError("a password needs at least one character, and only printable ones")
    if len(password.encode()) > PASSWORD_BYTES_MAX:
        raise ValueError(f"a password must have at most {PASSWORD_BYTES_MAX} bytes, which is all that bcrypt reads")
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


def read_htpasswd(path: Path) -> dict[str, PasswordHash]:
    """Read the users of an htpasswd file with bcrypt hashes (`htpasswd -B`, `streammetrics hash-password --username`).

    Raises ConfigError with every line that cannot be used. No message contains a hash.
    """
    try:
        with path.open("rb") as file:
            content = file.read(HTPASSWD_BYTES_MAX + 1)
        lines = content.decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise _refused(path, f"the file cannot be read: {reason}; name a readable htpasswd file") from error
    if len(content) > HTPASSWD_BYTES_MAX:
        raise _refused(path, f"the file has more than {HTPASSWD_BYTES_MAX} bytes")
    users: dict[str, PasswordHash] = {}
    problems = list(_problems(lines, users))
    if problems:
        raise _refused(path, *problems)
    if not 0 < len(users) <= USERS_MAX:
        raise _refused(path, f"the file has {len(users)} users; it needs 1 to {USERS_MAX}")
    return users


def _problems(lines: list[str], users: dict[str, PasswordHash]) -> Iterator[str]:
    """Add the users of all lines, and yield what is wrong with a line."""
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, text = line.rstrip().partition(":")
        try:
            if not colon or not name:
                raise ValueError("write USER:HASH")
            if name in users:
                raise ValueError("its user is in the file twice")
            users[name] = PasswordHash.parse(text)
        except ValueError as error:
            yield f"line {number}: {error}"


def _refused(path: Path, *rules: str) -> ConfigError:
    return ConfigError([Problem("http.htpasswd_file", str(path), rule) for rule in rules])
