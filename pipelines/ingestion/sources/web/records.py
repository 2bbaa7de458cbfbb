"""Read the JSON objects of an API, page after page."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pipelines.errors import DataError, SpecError
from pipelines.ingestion.sources.addresses import redact
from pipelines.ingestion.sources.web.http_client import HttpClient
from pipelines.ingestion.sources.web.pages import Page, PageRequest, Pages, look_up, resolve_link

MAX_BYTES = 16 * 1024 * 1024
"""Largest size of a page, bytes, if the source sets none."""
MAX_PAGES = 100_000
"""Largest number of pages that are read. If an API has more, its paging is assumed to have no end."""
Records = list[dict[str, Any]]
"""The rows of a page, each a JSON object."""


@dataclass(frozen=True)
class RecordReader:
    """Reads the records of an API, page after page.

    Args:
        rows: dotted path to the list of rows in a page; empty if the page is the list.
        pages: how the pages are requested.
        headers_env: maps the name of a header to the environment variable that holds its value.
        rate_per_s: largest number of requests per second; None for no limit.
        max_bytes: largest size of a page, in bytes.
        has_decimals: whether a declared column is a decimal. Numbers with a fraction are then read as exact decimals.
    """

    rows: str
    pages: Pages
    headers_env: Mapping[str, str]
    rate_per_s: float | None
    max_bytes: int
    has_decimals: bool

    def read(self, url: str, params: Mapping[str, str]) -> Iterator[Records]:
        """Yield the records of each page.

        Raises:
            DataError: a page is not as expected, a page comes twice, or there are more than `MAX_PAGES`. A retry cannot
                help.
            SpecError: a secret is not in the environment, or the API refuses it. A retry cannot help.
            ServiceError: the API failed several times. A retry can help.
        """
        client, request = self._open_client(), self.pages.get_first_request()
        rows_before, seen_digests = 0, set[bytes]()
        for number in range(MAX_PAGES):
            address = resolve_link(url, request.url) if request.url else url
            query = {} if request.url else {**params, **request.params}
            content, response = client.read(address, query, self.max_bytes)
            origin = f"page {number + 1} of {redact(url)}"
            body = self._parse_json(content, origin)
            records = self._find_records(body, origin)
            _check_not_repeated(seen_digests, request, query, records, origin)
            yield records
            link = response.links.get("next", {}).get("url", "")
            next_request = self.pages.get_next_request(Page(number, body, len(records), rows_before, link))
            if next_request is None:
                return
            request, rows_before = next_request, rows_before + len(records)
        raise DataError(f"{redact(url)} has more than {MAX_PAGES} pages.", "Request larger pages.")

    def _open_client(self) -> HttpClient:
        missing_variables = [name for name in self.headers_env.values() if not os.environ.get(name)]
        if missing_variables:
            raise SpecError(
                f"the environment variable {missing_variables[0]} is not set.", "It must hold the value of a header."
            )
        headers = {header: os.environ[name] for header, name in self.headers_env.items()}
        # `requests` would send the headers to the address of a redirect, too.
        return HttpClient(headers, self.rate_per_s, redirects=False)

    def _parse_json(self, content: bytes, origin: str) -> Any:
        try:
            return json.loads(content, parse_float=Decimal if self.has_decimals else float)
        except (ValueError, RecursionError):
            raise DataError(
                f"{origin} is not JSON.", "Check whether it is the address of the API, or of a web page."
            ) from None

    def _find_records(self, body: Any, origin: str) -> Records:
        records = look_up(body, self.rows)
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            keys = f"It has: {', '.join(map(repr, list(body)[:20]))}." if isinstance(body, dict) else ""
            raise DataError(f"{origin} has no list of objects at rows={self.rows!r}.", keys)
        return records


def _check_not_repeated(
    seen_digests: set[bytes], request: PageRequest, query: Mapping[str, str], records: Records, origin: str
) -> None:
    """Refuse a page whose request or rows equal those of an earlier page: the pages would never end."""
    digests = {hashlib.sha256(json.dumps([query, request.url]).encode()).digest()}
    if records:
        digests.add(hashlib.sha256(json.dumps(records, default=str).encode()).digest())
    if seen_digests & digests:
        raise DataError(
            f"{origin} is the same as a page before it.",
            "Check whether the API knows the parameters that pages= names.",
        )
    seen_digests |= digests
