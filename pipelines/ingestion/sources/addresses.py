"""Addresses of what is read, and what may be told of them."""

from __future__ import annotations


def redacted(url: str) -> str:
    """The address without user, password, query and fragment: secrets are in those."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    bare = rest.partition("#")[0] if scheme.startswith("http") else rest
    path, asked, _ = bare.partition("?") if scheme.startswith("http") else (bare, "", "")
    authority, slash, tail = path.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{tail}{'?...' if asked else ''}"


def on_web(address: str) -> bool:
    """Whether HTTP is spoken there."""
    return address.startswith(("http://", "https://"))
