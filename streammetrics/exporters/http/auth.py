"""Basic authentication before an ASGI application: one user, whose password is known by its hash only.

A wrong name and a wrong password cost the same time and get the same answer. Neither is ever logged: people type the one into
the field of the other.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass

import structlog
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

log = structlog.get_logger("streammetrics.http")

WAITING_MAX = 8
"""Most logins that wait for their turn: each takes 16 MiB and a core for a moment, so one runs at a time."""
TELL_SECONDS = 60.0
KNOWN = "streammetrics.known"
"""In the scope: whether whoever asks has logged in. Absent where nobody has to."""

_CHALLENGE = {"www-authenticate": 'Basic realm="streammetrics", charset="UTF-8"'}


@dataclass(frozen=True, slots=True)
class Login:
    """Who may look."""

    username: str
    verify: Callable[[bytes], bool]
    """Says whether a password, in UTF-8, is the right one. Slow on purpose; called in a thread."""


class Busy(Exception):
    """More logins are waiting than may."""


def requiring_login(app: ASGIApp, login: Login, open_paths: Collection[str]) -> ASGIApp:
    """The application for who has logged in; on the open paths for everybody, who then is told by KNOWN in the scope."""
    gate = Gate(login)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        header = next((value for name, value in scope["headers"] if name == b"authorization"), None)
        if header is None and scope["path"] in open_paths:
            return await app({**scope, KNOWN: False}, receive, send)
        try:
            if await gate.lets_in(header):
                return await app({**scope, KNOWN: True}, receive, send)
        except Busy:
            refusal = PlainTextResponse("too many logins at once; try again\n", 503, headers={"retry-after": "1"})
        else:
            gate.tell(scope.get("client"), header)
            refusal = PlainTextResponse("log in with the user and password of the HTTP port\n", 401, headers=_CHALLENGE)
        return await refusal(scope, receive, send)

    return guarded


class Gate:
    """Judges Authorization headers. Who was let in is recognised at once, by a digest that only this process can make."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._key = secrets.token_bytes(32)
        self._user = self._tag(login.username.encode())
        self._let_in = b""
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._told_at = float("-inf")
        self._refused = 0

    async def lets_in(self, header: bytes | None) -> bool:
        """Whether the header names the user and the password. Raises Busy."""
        credentials = _credentials(header)
        if credentials is None:
            return False
        tag = self._tag(b":".join(credentials))
        if hmac.compare_digest(tag, self._let_in):
            return True
        if self._waiting >= WAITING_MAX:
            raise Busy
        self._waiting += 1
        try:
            async with self._turn:
                if hmac.compare_digest(tag, self._let_in):  # let in while this one waited
                    return True
                right = await asyncio.to_thread(self._judge, *credentials)
        finally:
            self._waiting -= 1
        if right:
            self._let_in = tag
        return right

    def tell(self, client: tuple[str, int] | None, header: bytes | None) -> None:
        """Log refused logins, at most once a minute; a browser's first question, without a header, is none."""
        if header is None:
            return
        self._refused += 1
        now = asyncio.get_running_loop().time()
        if now - self._told_at >= TELL_SECONDS:
            log.warning("login refused", last_from=client[0] if client else "unknown", refused=self._refused)
            self._told_at, self._refused = now, 0

    def _judge(self, user: bytes, password: bytes) -> bool:
        """Both are always looked at, so that the time tells nothing of either."""
        is_user = hmac.compare_digest(self._tag(user), self._user)
        is_password = self._login.verify(password)
        return is_user & is_password

    def _tag(self, text: bytes) -> bytes:
        return hmac.new(self._key, text, hashlib.sha256).digest()


def _credentials(header: bytes | None) -> tuple[bytes, bytes] | None:
    """User and password of a header, or None where it holds none.

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
