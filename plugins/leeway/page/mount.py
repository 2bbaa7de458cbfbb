"""Declare the page to Airflow's plugin manager: the addresses of its requests, its script and its icon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

PREFIX = "/leeway"
"""Beginning of the addresses to which the page sends requests, and of the addresses of its script and its icon."""
NAME = "Leeway"
"""Name of the page in the navigation. The script defines a global variable of this name."""
Scope = MutableMapping[str, Any]


async def handle_request(
    scope: Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    """Answer a request to an address that begins with `PREFIX` (ASGI). The first request creates the application."""
    from leeway.page.app import create_app

    await create_app()(scope, receive, send)


FASTAPI_APPS = [{"app": handle_request, "url_prefix": PREFIX, "name": NAME}]
# Addresses without a slash at the beginning are relative to Airflow's base URL, which may have a path.
REACT_APPS = [
    {
        "name": NAME,
        "bundle_url": f"{PREFIX.removeprefix('/')}/leeway.js",
        "destination": "nav",
        "url_route": "leeway",
        "nav_top_level": True,
        "icon": f"{PREFIX.removeprefix('/')}/icon.svg",
        "icon_dark_mode": f"{PREFIX.removeprefix('/')}/icon-dark.svg",
    }
]
