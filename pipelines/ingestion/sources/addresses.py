"""Addresses of sources, without their secrets."""

from __future__ import annotations


def redact(url: str) -> str:
    """Return the address without user, password, query and fragment, which can hold secrets."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    is_web = scheme.startswith("http")
    without_fragment = rest.partition("#")[0] if is_web else rest
    path, query, _ = without_fragment.partition("?") if is_web else (without_fragment, "", "")
    authority, slash, tail = path.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{tail}{'?...' if query else ''}"


def is_http(address: str) -> bool:
    """Return whether the address is one of HTTP or HTTPS."""
    return address.startswith(("http://", "https://"))
