"""Basic authentication for an ASGI application: a few users, with passwords stored as hashes.

A wrong name and a wrong password cost the same time and get the same response. Neither is logged, because users sometimes type one
into the field of the other.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import structlog
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

log = structlog.get_logger("streammetrics.http")

WAITING_MAX = 8
"""Most logins that wait. Each check needs a core for a moment, so one runs at a time."""
LOG_SECONDS = 60.0
LOGGED_IN = "streammetrics.logged_in"
"""Key in the scope: True if the client has logged in. Absent if the port needs no login."""

_CHALLENGE = {"www-authenticate": 'Basic realm="streammetrics", charset="UTF-8"'}


@dataclass(frozen=True, slots=True)
class Login:
    """The users who may log in: at least one."""

    users: Mapping[str, Callable[[bytes], bool]]
    """By name: a function that returns True for the right password, in UTF-8. It is slow on purpose, so it runs in a thread."""


class TooManyLogins(Exception):
    """More than WAITING_MAX logins are waiting."""


def requiring_login(app: ASGIApp, login: Login, open_paths: Collection[str]) -> ASGIApp:
    """Wrap an application so that it needs the login, except on the open paths. Sets LOGGED_IN in the scope."""
    check = PasswordCheck(login)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        header = next((value for name, value in scope["headers"] if name == b"authorization"), None)
        if header is None and scope["path"] in open_paths:
            return await app({**scope, LOGGED_IN: False}, receive, send)
        try:
            if await check.accepts(header):
                return await app({**scope, LOGGED_IN: True}, receive, send)
        except TooManyLogins:
            response = PlainTextResponse("too many logins at the same time; try again\n", 503, headers={"retry-after": "1"})
        else:
            check.log_rejected(scope.get("client"), header)
            response = PlainTextResponse("log in with the user and password of the HTTP port\n", 401, headers=_CHALLENGE)
        return await response(scope, receive, send)

    return guarded


class PasswordCheck:
    """Checks Authorization headers.

    Accepted credentials and users are recognised by a digest with a secret key. A client cannot choose its bytes, so the time of a look-up
    reveals nothing.
    """

    def __init__(self, login: Login) -> None:
        self._key = secrets.token_bytes(32)
        self._verify_of = {self._tag(name.encode()): verify for name, verify in login.users.items()}
        self._verify_of_others = next(iter(login.users.values()))
        self._accepted: set[bytes] = set()
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._logged_at = float("-inf")
        self._rejected = 0

    async def accepts(self, header: bytes | None) -> bool:
        """Whether the header has the right user and password. Raises TooManyLogins."""
        credentials = _credentials(header)
        if credentials is None:
            return False
        tag = self._tag(b":".join(credentials))
        if tag in self._accepted:
            return True
        if self._waiting >= WAITING_MAX:
            raise TooManyLogins
        self._waiting += 1
        try:
            async with self._turn:
                if tag in self._accepted:  # accepted while this one waited
                    return True
                right = await asyncio.to_thread(self._verify, *credentials)
        finally:
            self._waiting -= 1
        if right:
            self._accepted.add(tag)  # at most one per user: a user has one password
        return right

    def log_rejected(self, client: tuple[str, int] | None, header: bytes | None) -> None:
        """Log rejected logins, at most once a minute. A first request without a header is not a rejected login."""
        if header is None:
            return
        self._rejected += 1
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= LOG_SECONDS:
            log.warning("login refused", last_from=client[0] if client else "unknown", refused=self._rejected)
            self._logged_at, self._rejected = now, 0

    def _verify(self, user: bytes, password: bytes) -> bool:
        """Check user and password. A password is always checked, so the time does not show whether the user exists."""
        verify = self._verify_of.get(self._tag(user))
        is_password = (verify or self._verify_of_others)(password)
        return is_password and verify is not None

    def _tag(self, text: bytes) -> bytes:
        return hmac.new(self._key, text, hashlib.sha256).digest()


def _credentials(header: bytes | None) -> tuple[bytes, bytes] | None:
    """Return user and password of a header; None without valid credentials.

    >>> _credentials(b"Basic YTpiOmM="), _credentials(b"Bearer x"), _credentials(b"Basic !")
    ((b'a', b'b:c'), None, None)
    """
    scheme, _, encoded = (header or b"").partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except binascii.Error:
        return None
    return (user, password) if colon else None
