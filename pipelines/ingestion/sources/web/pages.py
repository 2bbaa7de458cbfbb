"""Build the requests for the pages of an API: for the first page, and for the page after each page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

from pipelines.errors import DataError
from pipelines.ingestion.sources.addresses import redact


@dataclass(frozen=True)
class PageRequest:
    """The request for a page, either by parameters or by the page's address."""

    params: Mapping[str, str]
    """Parameters that are added to those of the source."""
    url: str = ""
    """Address of the page, absolute or relative to that of the source; it gets no parameters. Empty: the address of the
    source."""


@dataclass(frozen=True)
class Page:
    """One response."""

    number: int
    """Number of pages before this page."""
    body: Any
    """The parsed JSON."""
    rows: int
    """Number of rows in this page."""
    rows_before: int
    """Number of rows in the pages before this page."""
    link: str
    """Address in the header `Link: <...>; rel="next"`; empty if there is none."""


class Pages(Protocol):
    """The way in which the pages of an API are requested, one after another."""

    def get_first_request(self) -> PageRequest:
        """Return the request for the first page."""

    def get_next_request(self, page: Page) -> PageRequest | None:
        """Return the request for the page after this one; None after the last page."""


@dataclass(frozen=True)
class OnePage:
    """All rows come in one response."""

    def get_first_request(self) -> PageRequest:
        """Return the only request."""
        return PageRequest(params={})

    def get_next_request(self, page: Page) -> PageRequest | None:
        """Return None: there is no next page."""
        return None


@dataclass(frozen=True)
class PageNumber:
    """Pages are requested by number, up to the first page without rows.

    A page with fewer rows than `size` is not the last: a server may limit the size of a page.

    Args:
        param: parameter for the number of the page.
        start: number of the first page.
        size_param: parameter for the size of a page; empty if the API has none.
        size: number of rows of a page; used only if `size_param` is set.
    """

    param: str = "page"
    start: int = 1
    size_param: str = ""
    size: int = 1_000

    def get_first_request(self) -> PageRequest:
        """Return the request for the first number."""
        return self._build_request(self.start)

    def get_next_request(self, page: Page) -> PageRequest | None:
        """Return the request for the next number; None after a page without rows."""
        return self._build_request(self.start + page.number + 1) if page.rows else None

    def _build_request(self, number: int) -> PageRequest:
        size = {self.size_param: str(self.size)} if self.size_param else {}
        return PageRequest({self.param: str(number), **size})


@dataclass(frozen=True)
class Offset:
    """Pages are requested by the number of rows before them, up to the first page without rows.

    Args:
        param: parameter for the number of rows to skip.
        limit_param: parameter for the size of a page.
        limit: largest number of rows of a page. A server may return fewer rows; the next request begins after the
            returned ones.
    """

    param: str = "offset"
    limit_param: str = "limit"
    limit: int = 1_000

    def get_first_request(self) -> PageRequest:
        """Return the request that skips no rows."""
        return self._build_request(0)

    def get_next_request(self, page: Page) -> PageRequest | None:
        """Return the request for the rows that follow; None after a page without rows."""
        return self._build_request(page.rows_before + page.rows) if page.rows else None

    def _build_request(self, rows_to_skip: int) -> PageRequest:
        return PageRequest({self.param: str(rows_to_skip), self.limit_param: str(self.limit)})


@dataclass(frozen=True)
class CursorToken:
    """Each page has a token for the next page; the last page has no token.

    Args:
        param: parameter for the token.
        path: dotted path to the token in a page, such as `meta.next`.
    """

    param: str = "cursor"
    path: str = "next_cursor"

    def get_first_request(self) -> PageRequest:
        """Return the request without a token."""
        return PageRequest(params={})

    def get_next_request(self, page: Page) -> PageRequest | None:
        """Return the request with the page's token; None if the page has no token."""
        token = look_up(page.body, self.path)
        return None if token in (None, "", False) else PageRequest({self.param: str(token)})


@dataclass(frozen=True)
class LinkHeader:
    """Each page has the address of the next page, by default in the header `Link: <...>; rel="next"` (RFC 8288).

    The last page has none.

    Args:
        path: dotted path to the address of the next page in the JSON; empty if the address is in the header.
    """

    path: str = ""

    def get_first_request(self) -> PageRequest:
        """Return the request for the source's own address."""
        return PageRequest(params={})

    def get_next_request(self, page: Page) -> PageRequest | None:
        """Return the request for the page's link; None if the page has no link."""
        link = look_up(page.body, self.path) if self.path else page.link
        return PageRequest(params={}, url=str(link)) if link else None


def look_up(body: Any, path: str) -> Any:
    """Return the value at a dotted path in a page, or the page if the path is empty; None if there is no value."""
    for name in path.split(".") if path else ():
        body = body.get(name) if isinstance(body, dict) else None
    return body


def resolve_link(url: str, link: str) -> str:
    """Return the absolute address of a link in a page.

    Raises:
        DataError: the link has another scheme, host or port, so it must not get the secrets in the request's headers. A
            retry cannot help.
    """
    address = urljoin(url, link)
    origin, target = urlsplit(url), urlsplit(address)
    try:
        is_same_host = (origin.scheme, origin.hostname, origin.port) == (target.scheme, target.hostname, target.port)
    except ValueError:  # the port is not a number
        is_same_host = False
    if not is_same_host:
        raise DataError(
            f"the next page of {redact(url)} is at {redact(address)[:200]}, on another host, port or scheme."
        )
    return address
