"""How an API gives its rows in pages: what to ask for first, and after each page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

from pipelines.errors import DataError
from pipelines.ingestion.sources.addresses import redacted


@dataclass(frozen=True)
class Ask:
    """One request: parameters beside the source's own, or another address in place of all of them."""

    params: Mapping[str, str]
    url: str = ""


@dataclass(frozen=True)
class Page:
    """One answer."""

    number: int
    """How many came before it."""
    body: Any
    """Its JSON."""
    rows: int
    """How many it has."""
    rows_before: int
    """How many the pages before it had."""
    link: str
    """The address in its header `Link: <...>; rel="next"`; empty where there is none."""


class Pages(Protocol):
    """What is asked for, page after page."""

    def first(self) -> Ask:
        """The first page."""

    def after(self, page: Page) -> Ask | None:
        """The next one; none after the last."""


@dataclass(frozen=True)
class OnePage:
    """All rows come at once."""

    def first(self) -> Ask:
        """The first page."""
        return Ask({})

    def after(self, page: Page) -> Ask | None:
        """None."""
        return None


@dataclass(frozen=True)
class PageNumber:
    """Pages by number, to the first one without rows: a short one may be a server's limit.

    Args:
        param: parameter of the number.
        start: the first number.
        size_param: parameter of the rows a page, where there is one.
        size: rows a page.
    """

    param: str = "page"
    start: int = 1
    size_param: str = ""
    size: int = 1_000

    def first(self) -> Ask:
        """The first page."""
        return self._ask(self.start)

    def after(self, page: Page) -> Ask | None:
        """The next number."""
        return self._ask(self.start + page.number + 1) if page.rows else None

    def _ask(self, number: int) -> Ask:
        size = {self.size_param: str(self.size)} if self.size_param else {}
        return Ask({self.param: str(number), **size})


@dataclass(frozen=True)
class Offset:
    """Pages by the number of rows before them, to the first one without rows.

    Args:
        param: parameter of the rows to skip.
        limit_param: parameter of the rows a page.
        limit: rows a page, at most: a server that gives fewer is asked for the rest.
    """

    param: str = "offset"
    limit_param: str = "limit"
    limit: int = 1_000

    def first(self) -> Ask:
        """The first page."""
        return self._ask(0)

    def after(self, page: Page) -> Ask | None:
        """The rows that follow."""
        return self._ask(page.rows_before + page.rows) if page.rows else None

    def _ask(self, skipped: int) -> Ask:
        return Ask({self.param: str(skipped), self.limit_param: str(self.limit)})


@dataclass(frozen=True)
class CursorToken:
    """Each page has a token for the next one; the last has none.

    Args:
        param: parameter of the token.
        path: where the token is in a page: `meta.next`.
    """

    param: str = "cursor"
    path: str = "next_cursor"

    def first(self) -> Ask:
        """The first page."""
        return Ask({})

    def after(self, page: Page) -> Ask | None:
        """The page of the token."""
        token = found(page.body, self.path)
        return None if token in (None, "", False) else Ask({self.param: str(token)})


@dataclass(frozen=True)
class LinkHeader:
    """Each page has a header `Link: <...>; rel="next"` (RFC 8288); the last has none.

    Args:
        path: where the address is in the page's JSON, for an API that has it there.
    """

    path: str = ""

    def first(self) -> Ask:
        """The first page."""
        return Ask({})

    def after(self, page: Page) -> Ask | None:
        """The page of the link."""
        link = found(page.body, self.path) if self.path else page.link
        return Ask({}, str(link)) if link else None


def found(body: Any, path: str) -> Any:
    """What is at the dotted path in a page; None where there is nothing."""
    for step in path.split(".") if path else ():
        body = body.get(step) if isinstance(body, dict) else None
    return body


def same_host(url: str, link: str) -> str:
    """The link's whole address.

    Raises:
        DataError: it is at another host, which must not see our headers.
    """
    whole = urljoin(url, link)
    ours, theirs = urlsplit(url), urlsplit(whole)
    try:
        same = (ours.scheme, ours.hostname, ours.port) == (theirs.scheme, theirs.hostname, theirs.port)
    except ValueError:  # a port that is no number
        same = False
    if not same:
        raise DataError(f"the next page of {redacted(url)} is said to be at {redacted(whole)[:200]}: another host.")
    return whole
