"""HTTP with patience: what may pass is tried again, and a message tells no more of an address than its place."""

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
from pipelines.ingestion.sources.addresses import redacted

ATTEMPTS = 5
TIMEOUT_S = (10.0, 60.0)
"""To connect, and between two bytes."""
PAGE_S = 300.0
"""Longest time for a whole page: a server that drips keeps within the other two."""
LONGEST_WAIT_S = 120.0
"""Longest Retry-After that is waited for here; Airflow's own retry is for more."""
CHUNK = 1024 * 1024
Taken = TypeVar("Taken")
_backoff = wait_random_exponential(multiplier=0.5, max=20.0)


# Neither is one of the errors that a step raises: they do not leave this module.
class _Passing(Exception):
    """Worth another attempt, after `after_s` where the server said so."""

    def __init__(self, what: str, after_s: float | None = None) -> None:
        super().__init__(what)
        self.what, self.after_s = what, after_s


class _NoPage(Exception):
    """404 or 410."""


@dataclass
class Web:
    """GET, at most `rate_per_s` times a second.

    Args:
        headers: of every request.
        rate_per_s: most requests a second; None for no limit.
        redirects: whether another address may be followed; never where headers are secret.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    rate_per_s: float | None = None
    redirects: bool = True
    _session: requests.Session = field(default_factory=requests.Session, repr=False)
    _next: float = 0.0

    def get(
        self, url: str, take: Callable[[requests.Response], Taken], params: Mapping[str, str] | None = None
    ) -> Taken:
        """What `take` makes of the answer.

        Raises:
            DataError: there is no such page, or the request is refused. A retry cannot help.
            ServiceError: the server failed, or stopped in the middle, `ATTEMPTS` times. A retry can help.
        """
        try:
            return self._patiently(url, take, params)
        except _NoPage:
            raise DataError(f"there is no {redacted(url)}.") from None

    def _patiently(
        self, url: str, take: Callable[[requests.Response], Taken], params: Mapping[str, str] | None = None
    ) -> Taken:
        attempts = Retrying(
            retry=retry_if_exception_type(_Passing),
            stop=stop_after_attempt(ATTEMPTS),
            wait=_wait,
            sleep=pause,
            retry_error_callback=_give_up,
        )
        taken: Taken = attempts(self._once, url, take, params)
        return taken

    def has(self, url: str) -> bool:
        """Whether there is such a page."""
        try:
            self._patiently(url, lambda _: None)
        except _NoPage:
            return False
        return True

    def download(self, url: str, path: Path) -> None:
        """The whole file is at `path`: a server that stops in the middle is asked again."""
        self.get(url, lambda answer: _keep(answer, path))

    def body(self, url: str, params: Mapping[str, str], max_bytes: int) -> tuple[bytes, requests.Response]:
        """The answer's content, and the answer for its headers."""
        return self.get(url, lambda answer: (_content(answer, url, max_bytes), answer), params)

    def _once(self, url: str, take: Callable[[requests.Response], Taken], params: Mapping[str, str] | None) -> Taken:
        self._keep_rate()
        try:
            with self._session.get(
                url,
                params=params,
                headers={"Accept-Encoding": "identity", **self.headers},
                stream=True,
                timeout=TIMEOUT_S,
                allow_redirects=self.redirects,
            ) as answer:
                _demand(answer, redacted(url))
                return take(answer)
        except requests.exceptions.RequestException as error:
            raise _failure(error, redacted(url)) from None
        except ValueError:  # of an address in the answer that is none
            raise DataError(f"{redacted(url)} gives an answer that is no HTTP.") from None

    def _keep_rate(self) -> None:
        if self.rate_per_s:
            now = time.monotonic()
            if self._next > now:
                pause(self._next - now)
            self._next = max(now, self._next) + 1.0 / self.rate_per_s


def pause(seconds: float) -> None:
    """Time has passed."""
    time.sleep(seconds)


def _demand(answer: requests.Response, place: str) -> None:
    code = answer.status_code
    if code < 300:
        return
    if code in (404, 410):
        raise _NoPage
    if code in (401, 403):
        raise SpecError(f"{place} is refused ({code}).", "Are the credentials right, and in the environment?")
    if code in (408, 425, 429) or code >= 500:
        raise _passing(f"{place} answers {code}", _asked_wait(answer.headers.get("Retry-After", "")))
    if code < 400:
        told = redacted(answer.headers.get("Location", "nowhere"))
        raise DataError(f"{place} redirects ({code}) to {told}.", "Name that address, if it is to be trusted.")
    raise DataError(f"{place} answers {code}.", "The request is wrong: check its parameters.")


def _passing(what: str, after_s: float | None = None) -> Exception:
    if after_s is not None and after_s > LONGEST_WAIT_S:
        return ServiceError(f"{what}, and asks to wait {after_s:.0f} s.", "Run it again after that.")
    return _Passing(what, after_s)


def _asked_wait(text: str) -> float | None:
    """Seconds of a Retry-After: a number, or a date (RFC 9110, 10.2.3)."""
    if text.strip().isdigit():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = getattr(error, "after_s", None)
    return _backoff(state) if asked is None else float(asked)


def _give_up(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, _Passing)
    raise ServiceError(f"{error.what}, {ATTEMPTS} times.", "Run it again later.") from None


def _failure(error: requests.exceptions.RequestException, place: str) -> Exception:
    """Not the error's own text: it has the whole address in it."""
    kinds = requests.exceptions
    if isinstance(error, (kinds.MissingSchema, kinds.InvalidSchema, kinds.InvalidURL, kinds.InvalidHeader)):
        return SpecError(f"{place}: {type(error).__name__}.", "Wanted: an http or https address, and plain headers.")
    if isinstance(error, kinds.Timeout):
        return _passing(f"{place} does not answer in time")
    if isinstance(error, (kinds.ChunkedEncodingError, kinds.ContentDecodingError)):
        return _passing(f"{place} stops in the middle")
    return _passing(f"{urlsplit(place).netloc} does not answer ({type(error).__name__})")


def _keep(answer: requests.Response, path: Path) -> None:
    with path.open("wb") as file:
        for chunk in answer.iter_content(CHUNK):
            file.write(chunk)


def _content(answer: requests.Response, url: str, max_bytes: int) -> bytes:
    parts, size, ends = [], 0, time.monotonic() + PAGE_S
    for chunk in answer.iter_content(64 * 1024):
        parts.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            raise DataError(f"a page of {redacted(url)} is longer than {max_bytes} bytes.", "Ask for smaller pages.")
        if time.monotonic() > ends:
            raise _passing(f"{redacted(url)} does not answer in time")
    return b"".join(parts)
