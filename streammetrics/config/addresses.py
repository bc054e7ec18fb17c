"""Addresses of servers as settings. Messages never contain one, because people paste logins into them."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit


def http_parts(url: str) -> SplitResult:
    """Return the parts of an http or https URL. Raises ValueError for another text.

    >>> http_parts("https://exporter:9464/metrics").hostname
    'exporter'
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 (reading it raises ValueError for an invalid port)
    except ValueError:
        raise ValueError("not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("a URL begins with http:// or https://, and has a host")
    require_host(parts.hostname)
    return parts


def require_host(name: str) -> None:
    """Raise ValueError for the name of a host that cannot be looked up. The look-up itself would raise an error of another kind.

    >>> require_host("broker-1.internal"), require_host("10.0.0.1"), require_host("::1")
    (None, None, None)
    """
    try:
        name.encode("idna")
    except UnicodeError:
        raise ValueError("a part of the host's name is empty or too long") from None


def is_this_machine(host: str | None) -> bool:
    """Return whether only this machine can be reached by a host.

    >>> [is_this_machine(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "127.0.0.1.shop.test", None)]
    [True, True, True, False, False, False]
    """
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False
