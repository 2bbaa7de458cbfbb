"""Addresses of sources, without their secrets."""

from __future__ import annotations


def redact(url: str) -> str:
    """Return the address without the parts that can hold secrets.

    These are the user and the password, and for HTTP also the query and the fragment.
    """
    scheme, separator, remainder = url.partition("://")
    if not separator:
        return url
    is_web = scheme.startswith("http")
    without_fragment = remainder.partition("#")[0] if is_web else remainder
    before_query, query, _ = without_fragment.partition("?") if is_web else (without_fragment, "", "")
    authority, slash, path = before_query.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}{'?...' if query else ''}"


def is_http(address: str) -> bool:
    """Return whether the address begins with http:// or https://."""
    return address.startswith(("http://", "https://"))
