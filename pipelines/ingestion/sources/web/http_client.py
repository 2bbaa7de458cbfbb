"""Make HTTP requests and retry transient failures. No message contains the secrets of an address."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import requests
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from pipelines.errors import DataError, ServiceError, SpecError
from pipelines.ingestion.sources.addresses import redact

ATTEMPTS = 5
"""Number of times that a request is made before the client gives up."""
TIMEOUT_S = (10.0, 60.0)
"""Longest times in seconds: to connect, and between two bytes of the response."""
MAX_PAGE_S = 300.0
"""Longest time to read one page, seconds. `TIMEOUT_S` does not stop a server that sends a few bytes at a time. For
downloads of files there is no such limit."""
MAX_WAIT_S = 120.0
"""Longest wait that a header Retry-After may demand, seconds. If the header demands more, the step fails, and Airflow
can retry it."""
CHUNK_BYTES = 1024 * 1024
"""Bytes of a download that are read at a time."""
T = TypeVar("T")
_backoff = wait_random_exponential(multiplier=0.5, max=20.0)
"""Returns a random number of seconds to wait before a retry. Its upper limit doubles with each attempt, up to 20."""


# These two errors do not leave this module.
class _TransientError(Exception):
    """The request may succeed in a retry. `retry_after_s`: seconds to wait before it, if the response gives them."""

    def __init__(self, problem: str, retry_after_s: float | None = None) -> None:
        super().__init__(problem)
        self.problem, self.retry_after_s = problem, retry_after_s


class _NotFoundError(Exception):
    """The server answered 404 or 410."""


@dataclass
class HttpClient:
    """Makes GET requests, at most `rate_per_s` per second.

    Args:
        headers: headers of every request.
        rate_per_s: largest number of requests per second; None for no limit.
        redirects: whether redirects are followed. Must be False if headers are secret, because a redirect may lead to
            another host.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    rate_per_s: float | None = None
    redirects: bool = True
    _session: requests.Session = field(default_factory=requests.Session, repr=False)
    _next_request_at: float = 0.0

    def get(self, url: str, read: Callable[[requests.Response], T], params: Mapping[str, str] | None = None) -> T:
        """Request a page, and return the result of `read`, which is called with the response.

        Raises:
            DataError: there is no such page; the server answers that the request is wrong; or the response redirects
                to an address that is not valid, or is a redirect that is not followed. A retry cannot help.
            SpecError: the credentials are refused, or the address is not valid. A retry cannot help.
            ServiceError: the server failed, or stopped in the middle of a response, `ATTEMPTS` times; or it demands a
                wait of more than `MAX_WAIT_S`. A retry can help.
        """
        try:
            return self._get_with_retries(url, read, params)
        except _NotFoundError:
            raise DataError(f"there is no {redact(url)}.") from None

    def exists(self, url: str) -> bool:
        """Return whether there is such a page. Raises the errors of `get` for other failures."""
        try:
            self._get_with_retries(url, lambda _: None)
        except _NotFoundError:
            return False
        return True

    def download(self, url: str, path: Path) -> None:
        """Write a complete file to `path`; retry the request if the server stops in the middle of the file."""
        self.get(url, lambda response: _write_content(response, path))

    def read(self, url: str, params: Mapping[str, str], max_bytes: int) -> tuple[bytes, requests.Response]:
        """Return the content of a page, and the response, whose headers the caller may need.

        Raises:
            DataError: the page is longer than `max_bytes`. A retry cannot help. The errors of `get` are raised as well.
        """
        return self.get(url, lambda response: (_read_content(response, url, max_bytes), response), params)

    def _get_with_retries(
        self, url: str, read: Callable[[requests.Response], T], params: Mapping[str, str] | None = None
    ) -> T:
        retryer = Retrying(
            retry=retry_if_exception_type(_TransientError),
            stop=stop_after_attempt(ATTEMPTS),
            wait=_choose_wait,
            sleep=sleep,
            retry_error_callback=_give_up,
        )
        result: T = retryer(self._get_once, url, read, params)
        return result

    def _get_once(self, url: str, read: Callable[[requests.Response], T], params: Mapping[str, str] | None) -> T:
        self._wait_for_rate_limit()
        try:
            with self._session.get(
                url,
                params=params,
                headers={"Accept-Encoding": "identity", **self.headers},
                stream=True,
                timeout=TIMEOUT_S,
                allow_redirects=self.redirects,
            ) as response:
                _check_status(response, redact(url))
                return read(response)
        except requests.exceptions.RequestException as error:
            raise _translate_error(error, redact(url)) from None
        except ValueError:  # the response contains an address that is not valid
            message = f"{redact(url)} gives a response with an address that is not valid."
            raise DataError(message, "Check that it is the address of a web server.") from None

    def _wait_for_rate_limit(self) -> None:
        """Sleep until the next request is within `rate_per_s`."""
        if self.rate_per_s:
            now = time.monotonic()
            if self._next_request_at > now:
                sleep(self._next_request_at - now)
            self._next_request_at = max(now, self._next_request_at) + 1.0 / self.rate_per_s


def sleep(seconds: float) -> None:
    """Sleep; tests replace this function."""
    time.sleep(seconds)


def _check_status(response: requests.Response, origin: str) -> None:
    code = response.status_code
    if code < 300:
        return
    if code in (404, 410):
        raise _NotFoundError
    if code in (401, 403):
        raise SpecError(f"{origin} is refused ({code}).", "Check the credentials in the environment.")
    if code in (408, 425, 429) or code >= 500:
        raise _build_transient_error(
            f"{origin} answers {code}", _parse_retry_after(response.headers.get("Retry-After", ""))
        )
    if code < 400:
        target = redact(response.headers.get("Location", "nowhere"))
        raise DataError(f"{origin} redirects ({code}) to {target}.", "Use that address, if you trust it.")
    raise DataError(f"{origin} answers {code}.", "The request is wrong: check its parameters.")


def _build_transient_error(problem: str, retry_after_s: float | None = None) -> Exception:
    if retry_after_s is not None and retry_after_s > MAX_WAIT_S:
        return ServiceError(f"{problem}, and asks to wait {retry_after_s:.0f} s.", "Run it again after that.")
    return _TransientError(problem, retry_after_s)


def _parse_retry_after(text: str) -> float | None:
    """Return the seconds that Retry-After names, by a number or a date (RFC 9110, 10.2.3); None for other texts."""
    if text.strip().isdecimal() and text.isascii():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def _choose_wait(state: RetryCallState) -> float:
    """Return the seconds to wait before the next attempt: the server's number, or else a random and growing one."""
    error = state.outcome.exception() if state.outcome else None
    retry_after_s = getattr(error, "retry_after_s", None)
    return _backoff(state) if retry_after_s is None else float(retry_after_s)


def _give_up(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, _TransientError)
    raise ServiceError(f"{error.problem}, {ATTEMPTS} times.", "Run it again later.") from None


def _translate_error(error: requests.exceptions.RequestException, origin: str) -> Exception:
    """Translate an error of `requests`. Its own text is left out, because it contains the whole address."""
    exceptions = requests.exceptions
    request_errors = (
        exceptions.MissingSchema,
        exceptions.InvalidSchema,
        exceptions.InvalidURL,
        exceptions.InvalidHeader,
    )
    if isinstance(error, request_errors):
        return SpecError(f"{origin}: {type(error).__name__}.", "Use an http or https address, and plain headers.")
    if isinstance(error, exceptions.TooManyRedirects):
        return DataError(f"{origin} redirects more than 30 times.", "Use the address at which the data is.")
    if isinstance(error, exceptions.Timeout):
        return _build_transient_error(f"{origin} does not answer in time")
    if isinstance(error, (exceptions.ChunkedEncodingError, exceptions.ContentDecodingError)):
        return _build_transient_error(f"{origin} stops in the middle of its response")
    return _build_transient_error(f"{urlsplit(origin).netloc} does not answer ({type(error).__name__})")


def _write_content(response: requests.Response, path: Path) -> None:
    with path.open("wb") as file:
        for chunk in response.iter_content(CHUNK_BYTES):
            file.write(chunk)


def _read_content(response: requests.Response, url: str, max_bytes: int) -> bytes:
    chunks, size, deadline = [], 0, time.monotonic() + MAX_PAGE_S
    for chunk in response.iter_content(64 * 1024):
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            raise DataError(f"a page of {redact(url)} is longer than {max_bytes} bytes.", "Request smaller pages.")
        if time.monotonic() > deadline:
            raise _build_transient_error(f"{redact(url)} does not answer in time")
    return b"".join(chunks)
