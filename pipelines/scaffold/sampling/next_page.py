"""Find out at which path the pages of an API have the address of the next page."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from pipelines.ingestion.sources.addresses import redact
from pipelines.ingestion.sources.dates import DATE_PLACEHOLDER, fill_date
from pipelines.ingestion.sources.web.pages import Page, PageRequest, look_up
from pipelines.system.log import log

PATHS = ("next", "next.href", "links.next", "links.next.href", "_links.next", "_links.next.href", "paging.next")
"""Dotted paths at which APIs have the address of the next page; the last page has null there, or nothing."""
DAY = dt.timedelta(days=1)


@dataclass
class LinkFinder:
    """Find and follow the address of the next page: in the header `Link`, or else at one of `PATHS`.

    An address that contains the previous or the next day, and not the day that is read, is not that of a next page.
    A value that is not an address, such as a token, is not followed.
    """

    url: str = field(repr=False)
    """Address of the source, with {date}."""
    day: dt.date
    """Day whose pages are read."""
    path: str = ""
    """Path at which the pages have the address, or null; empty if the address is in the header `Link`, or if no page
    has an address or null at one of `PATHS`."""
    has_header: bool = False
    """Whether a page had the address in its header `Link`."""

    def get_first_request(self) -> PageRequest:
        """Return the request for the source's own address."""
        return PageRequest(params={})

    def get_next_request(self, page: Page) -> PageRequest | None:
        """Return the request for the next page; None if the page names no next page."""
        if self._is_next_page(page.link):
            self.path, self.has_header = "", True
            return PageRequest(params={}, url=page.link)
        values = {path: look_up(page.body, path) for path in PATHS if _has_path(page.body, path)}
        links = {path: link for path, link in values.items() if self._is_next_page(link)}
        if links or not (self.path or self.has_header):
            empty_paths = [path for path, value in values.items() if value is None]
            self.path = next(iter([*links, *empty_paths]), self.path)
        if not links and page.number == 0:
            self._warn_of_tokens(values)
        return PageRequest(params={}, url=links[self.path]) if links else None

    def _is_next_page(self, link: Any) -> bool:
        return _is_address(link) and not any(
            fill_date(placeholder, day) in link and fill_date(placeholder, self.day) not in link
            for placeholder in (match.group() for match in DATE_PLACEHOLDER.finditer(self.url))
            for day in (self.day - DAY, self.day + DAY)
        )

    def _warn_of_tokens(self, values: dict[str, Any]) -> None:
        tokens = {path: value for path, value in values.items() if value and isinstance(value, (str, int))}
        for path, token in tokens.items():
            if not _is_address(token):
                text = "%s has %r at %s, which is not an address: only the first page is read. %s"
                log.warning(text, redact(self.url), str(token)[:40], path, "Set `pages` in source.py.")


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://", "/", "?"))


def _has_path(body: Any, path: str) -> bool:
    parent, _, name = path.rpartition(".")
    parent_body = look_up(body, parent)
    return isinstance(parent_body, dict) and name in parent_body
