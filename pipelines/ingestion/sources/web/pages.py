"""How an API gives its rows in pages: the first request, and the request after each page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

from pipelines.errors import DataError
from pipelines.ingestion.sources.addresses import redact


@dataclass(frozen=True)
class PageRequest:
    """One request: parameters beside the source's own, or another address in place of all of them."""

    params: Mapping[str, str]
    url: str = ""


@dataclass(frozen=True)
class Page:
    """One response."""

    number: int
    """Number of pages before it."""
    body: Any
    """Its parsed JSON."""
    rows: int
    """Number of its rows."""
    rows_before: int
    """Number of rows of the pages before it."""
    link: str
    """Address in its header `Link: <...>; rel="next"`; empty where there is none."""


class Pages(Protocol):
    """A way to ask for page after page."""

    def get_first_request(self) -> PageRequest:
        """Return the request for the first page."""

    def get_next_request(self, page: Page) -> PageRequest | None:
        """Return the request for the page after this one; None after the last page."""


@dataclass(frozen=True)
class OnePage:
    """All rows come in one response."""

    def get_first_request(self) -> PageRequest:
        """Return the only request."""
        return PageRequest({})

    def get_next_request(self, page: Page) -> PageRequest | None:
        """Return None."""
        return None


@dataclass(frozen=True)
class PageNumber:
    """Pages by number, up to the first page without rows. A short page does not end it: servers have limits.

    Args:
        param: parameter of the number.
        start: first number.
        size_param: parameter of the page size, where there is one.
        size: rows of a page.
    """

    param: str = "page"
    start: int = 1
    size_param: str = ""
    size: int = 1_000

    def get_first_request(self) -> PageRequest:
        """Return the request for the first number."""
        return self._request(self.start)

    def get_next_request(self, page: Page) -> PageRequest | None:
        """Return the request for the next number; None after a page without rows."""
        return self._request(self.start + page.number + 1) if page.rows else None

    def _request(self, number: int) -> PageRequest:
        size = {self.size_param: str(self.size)} if self.size_param else {}
        return PageRequest({self.param: str(number), **size})


@dataclass(frozen=True)
class Offset:
    """Pages by the number of rows before them, up to the first page without rows.

    Args:
        param: parameter of the number of rows to skip.
        limit_param: parameter of the page size.
        limit: most rows of a page. A server may give fewer; the next request asks for the rest.
    """

    param: str = "offset"
    limit_param: str = "limit"
    limit: int = 1_000

    def get_first_request(self) -> PageRequest:
        """Return the request that skips no rows."""
        return self._request(0)

    def get_next_request(self, page: Page) -> PageRequest | None:
        """Return the request for the rows that follow; None after a page without rows."""
        return self._request(page.rows_before + page.rows) if page.rows else None

    def _request(self, skipped: int) -> PageRequest:
        return PageRequest({self.param: str(skipped), self.limit_param: str(self.limit)})


@dataclass(frozen=True)
class CursorToken:
    """Each page has a token for the next page; the last page has none.

    Args:
        param: parameter of the token.
        path: where the token is in a page: `meta.next`.
    """

    param: str = "cursor"
    path: str = "next_cursor"

    def get_first_request(self) -> PageRequest:
        """Return the request without a token."""
        return PageRequest({})

    def get_next_request(self, page: Page) -> PageRequest | None:
        """Return the request with the page's token; None where it has none."""
        token = look_up(page.body, self.path)
        return None if token in (None, "", False) else PageRequest({self.param: str(token)})


@dataclass(frozen=True)
class LinkHeader:
    """Each page has a header `Link: <...>; rel="next"` (RFC 8288); the last page has none.

    Args:
        path: where the address is in a page's JSON, for an API that puts it there.
    """

    path: str = ""

    def get_first_request(self) -> PageRequest:
        """Return the request for the source's own address."""
        return PageRequest({})

    def get_next_request(self, page: Page) -> PageRequest | None:
        """Return the request for the page's link; None where it has none."""
        link = look_up(page.body, self.path) if self.path else page.link
        return PageRequest({}, str(link)) if link else None


def look_up(body: Any, path: str) -> Any:
    """Return the value at a dotted path in a page; None where there is none."""
    for step in path.split(".") if path else ():
        body = body.get(step) if isinstance(body, dict) else None
    return body


def resolve_link(url: str, link: str) -> str:
    """Return the absolute address of a link in a page.

    Raises:
        DataError: the link leads to another host, which must not receive the request's headers. A retry cannot help.
    """
    address = urljoin(url, link)
    origin, target = urlsplit(url), urlsplit(address)
    try:
        is_same = (origin.scheme, origin.hostname, origin.port) == (target.scheme, target.hostname, target.port)
    except ValueError:  # the port is not a number
        is_same = False
    if not is_same:
        raise DataError(f"the next page of {redact(url)} is said to be at {redact(address)[:200]}: another host.")
    return address
