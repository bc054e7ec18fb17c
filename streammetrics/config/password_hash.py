"""Password hashes of the HTTP port: salted scrypt digests. Handles no logins.

A hash has the form `scrypt:N:r:p:SALT:DIGEST`, with salt and digest in URL-safe base64 without padding. It contains no character
that a shell, a Compose file or a unit file would expand.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

COST, BLOCK, PARALLEL = 16_384, 8, 1
"""N, r and p of new hashes: 16 MiB and about 50 ms per attempt."""
COST_MAX, BLOCK_MAX, PARALLEL_MAX = 1 << 17, 32, 4
MEMORY_BYTES_MAX = 256 << 20
SALT_BYTES, SALT_BYTES_MAX = 16, 64
DIGEST_BYTES = 32
TEXT = re.compile(r"scrypt:([0-9]{1,6}):([0-9]{1,2}):([0-9]):([A-Za-z0-9_-]+):([A-Za-z0-9_-]+)")


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """A parsed password hash. `repr` shows neither salt nor digest.

    >>> stored = PasswordHash.parse(hash_password("open sesame"))
    >>> stored.matches(b"open sesame"), stored.matches(b"open barley")
    (True, False)
    """

    cost: int
    block: int
    parallel: int
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        """Read a hash. Raises ValueError for another form, or for costs outside the allowed range; no message contains the hash."""
        match = TEXT.fullmatch(text)
        if match is None:
            raise ValueError("a hash has the form scrypt:N:r:p:SALT:DIGEST, with salt and digest in URL-safe base64 without padding")
        cost, block, parallel = (int(number) for number in match.groups()[:3])
        if cost & (cost - 1) or not COST <= cost <= COST_MAX or not BLOCK <= block <= BLOCK_MAX or not 0 < parallel <= PARALLEL_MAX:
            raise ValueError(
                f"N must be a power of two from {COST} to {COST_MAX}, r from {BLOCK} to {BLOCK_MAX}, p from {PARALLEL} to {PARALLEL_MAX}"
            )
        if 128 * cost * block > MEMORY_BYTES_MAX:
            raise ValueError(f"128 * N * r, the memory of one login in bytes, must be at most {MEMORY_BYTES_MAX}")
        salt, digest = _bytes(match[4]), _bytes(match[5])
        if not SALT_BYTES <= len(salt) <= SALT_BYTES_MAX or len(digest) != DIGEST_BYTES:
            raise ValueError(f"the salt must have {SALT_BYTES} to {SALT_BYTES_MAX} bytes, and the digest {DIGEST_BYTES}")
        return cls(cost, block, parallel, salt, digest)

    def matches(self, password: bytes) -> bool:
        """Check a password, in UTF-8, in constant time. Releases the interpreter lock while it computes.

        A password with a NUL byte never matches: HMAC, which scrypt uses, gives a key and the same key with NUL bytes behind it
        one and the same result.
        """
        equal = hmac.compare_digest(_scrypt(password, self.salt, self.cost, self.block, self.parallel), self.digest)
        return equal and b"\0" not in password


def hash_password(password: str) -> str:
    """Hash a password with a new salt, for http.password_hash. Raises ValueError if it is empty or has unprintable characters.

    >>> hash_password("open sesame").rpartition(":")[0][:15]
    'scrypt:16384:8:'
    """
    if not password or not password.isprintable():
        raise ValueError("a password needs at least one character, and only printable ones")
    salt = secrets.token_bytes(SALT_BYTES)
    return f"scrypt:{COST}:{BLOCK}:{PARALLEL}:{_text(salt)}:{_text(_scrypt(password.encode(), salt, COST, BLOCK, PARALLEL))}"


def _scrypt(password: bytes, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    memory_bytes = 128 * block * (cost + parallel + 2) + (1 << 20)
    return hashlib.scrypt(password, salt=salt, n=cost, r=block, p=parallel, maxmem=memory_bytes, dklen=DIGEST_BYTES)


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        raise ValueError("salt or digest is not base64") from None
