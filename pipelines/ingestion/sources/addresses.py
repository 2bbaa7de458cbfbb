"""Remove secrets from addresses of sources, and read addresses from environment variables."""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qsl

from pipelines.errors import SpecError

SECRET_NAMES = re.compile(
    r"(^|[-_.]|api|access|private|subscription)key(id)?$|token|secret|passw|pwd|credential|sig(nature)?$|auth", re.I
)
"""Names of parameters in the query of an address whose values are secrets."""


def redact(url: str) -> str:
    """Return the address without the parts that can hold secrets.

    User and password are removed from every URL. The query and the fragment are removed from an HTTP address; from
    other URLs the query is removed only if it has a parameter with the name of a secret. `?...` stands for the query.
    """
    scheme, separator, remainder = url.partition("://")
    if not separator:
        return url
    is_web = scheme.startswith("http")
    without_fragment = remainder.partition("#")[0] if is_web else remainder
    is_query_removed = is_web or _has_secret_parameter(remainder)
    before_query, query, _ = without_fragment.partition("?") if is_query_removed else (without_fragment, "", "")
    authority, slash, path = before_query.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}{'?...' if query else ''}"


def is_http(address: str) -> bool:
    """Return whether the address begins with http:// or https://."""
    return address.startswith(("http://", "https://"))


def has_secret(address: str) -> bool:
    """Return whether the address holds a password, a parameter with the name of a secret or, for HTTP, a user."""
    if "://" not in address:
        return False
    user_and_password, separator, _ = address.partition("://")[2].partition("/")[0].rpartition("@")
    if separator and (":" in user_and_password or is_http(address)):
        return True
    return _has_secret_parameter(address)


def _has_secret_parameter(address: str) -> bool:
    query = address.partition("?")[2].partition("#")[0]
    return any(SECRET_NAMES.search(name) for name, _ in parse_qsl(query, keep_blank_values=True))


def read_address(variable: str) -> str:
    """Return the address that an environment variable holds.

    Raises:
        SpecError: the variable is not set. A retry cannot help.
    """
    address = os.environ.get(variable, "")
    if not address:
        raise SpecError(f"the environment variable {variable} is not set.", "It must hold the address of the source.")
    return address
