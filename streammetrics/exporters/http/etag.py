"""Responses with an ETag, a digest of their content. A client that already has the content gets status 304.

The tag depends on the content only. It is the same after a restart, in every process, and with or without compression, so it is a
weak tag.
"""

from __future__ import annotations

import hashlib

from starlette.requests import Request
from starlette.responses import Response

TAG_BYTES = 16
REVALIDATE = "no-cache"
"""The client may cache the response but must revalidate it each time."""


def tag_of(content: bytes) -> str:
    """Return the ETag of this content.

    >>> tag_of(b"{}"), tag_of(b"{}") == tag_of(b"{ }")
    ('W/"2afb9b83f9314e5d029766197f539792"', False)
    """
    return f'W/"{hashlib.blake2b(content, digest_size=TAG_BYTES).hexdigest()}"'


def tagged(request: Request, content: bytes, media_type: str, cache_control: str | None = None) -> Response:
    """Return the content with its tag, or an empty 304 response if the client has it (If-None-Match).

    The tag costs about a millisecond per megabyte. Without `cache_control` the default of the port (no-store) applies; a client can
    still keep the response in memory.
    """
    tag = tag_of(content)
    headers = {"etag": tag} | ({} if cache_control is None else {"cache-control": cache_control})
    if _has(request.headers.getlist("if-none-match"), tag):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)


def _has(headers: list[str], tag: str) -> bool:
    """Whether a header contains this tag, weak or strong. * matches any tag.

    >>> _has(['"a", W/"b"'], 'W/"b"'), _has(['"b"'], 'W/"b"'), _has(["*"], 'W/"b"'), _has(['"a"'], 'W/"b"'), _has([], 'W/"b"')
    (True, True, True, False, False)
    """
    tags = [tag.strip().removeprefix("W/") for line in headers for tag in line.split(",")]
    return tag.removeprefix("W/") in tags or "*" in tags
