"""Compute the features of waiting requests together, and score these requests together.

Each request gets the same scores, to the bit, or the same error, as if it were alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipelines.container.serving.lookups import LookupResult
from pipelines.container.serving.row_features import CheckedRows, ComputedRows
from pipelines.serving.served_model import ServedModel

MAX_BATCH_ROWS = 256
"""Largest number of rows whose features are computed together. A request with more rows is computed alone."""


class Request(NamedTuple):
    """A request before its rows are checked."""

    body: bytes
    content_type: str


class RequestScores(NamedTuple):
    """The answer to one request."""

    scores: list[Any]
    """Score of each row, as JSON values."""
    lookups: dict[str, dict[str, int]]
    """Maps each lookup to the number of rows by outcome."""


@dataclass(frozen=True)
class Batch:
    """Requests whose features were computed together."""

    positions: Sequence[int]
    """Positions of the batch's requests in the sequence that `compute_batches` got."""
    row_counts: Sequence[int]
    """Number of rows of each request."""
    rows: ComputedRows
    """The rows of all requests, in their order."""

    def list_ranges(self) -> Iterator[tuple[int, int]]:
        """Yield the position of the first row, and the number of rows, of each request."""
        begin = 0
        for count in self.row_counts:
            yield begin, count
            begin += count


def compute_batches(model: ServedModel, requests: Sequence[Request]) -> tuple[list[Batch], dict[int, Exception]]:
    """Compute the features of requests. Requests are computed together if their features cannot depend on each other.

    Returns:
        The batches; and the error of each request that is in no batch, by the request's position in `requests`.
    """
    errors = dict[int, Exception]()
    groups = _group_requests(model, requests, errors)
    batches = [batch for group in groups for batch in _compute_group(model, group, errors)]
    return batches, errors


def score_batch(
    model: ServedModel, batch: Batch, lookup_result: LookupResult | None
) -> list[RequestScores | Exception]:
    """Score the requests of a batch. They are scored together if their scores cannot depend on each other.

    Args:
        model: the loaded model.
        batch: requests with their features.
        lookup_result: the looked-up features of all rows of the batch; None if there are none.

    Returns:
        For each request its scores, or its own error.
    """
    ranges = list(batch.list_ranges())
    if len(ranges) > 1 and model.can_score_together:
        with suppress(Exception):  # then each request is scored alone, below, so that only the wrong ones fail
            scores = model.score(batch.rows, lookup_result)
            return [
                RequestScores(scores[begin : begin + count], _count_lookups(lookup_result, begin, count))
                for begin, count in ranges
            ]
    return [_score_request(model, batch, lookup_result, begin, count) for begin, count in ranges]


def _group_requests(
    model: ServedModel, requests: Sequence[Request], errors: dict[int, Exception]
) -> list[dict[int, CheckedRows]]:
    """Check the requests, and group those that can be computed together. A group maps positions to checked rows.

    The error of a request that is wrong is added to `errors`.
    """
    groups, newest_groups = list[dict[int, CheckedRows]](), dict[Hashable, dict[int, CheckedRows]]()
    for number, request in enumerate(requests):
        try:
            rows = model.check(*request)
        except Exception as error:
            errors[number] = error
            continue
        can_be_merged = rows.count <= MAX_BATCH_ROWS and model.row_features.can_merge(rows)
        group_key: Hashable = rows.columns if can_be_merged else number  # the number: a group of one request
        group = newest_groups.get(group_key)
        if group is None or sum(other_rows.count for other_rows in group.values()) + rows.count > MAX_BATCH_ROWS:
            group = newest_groups[group_key] = {}
            groups.append(group)
        group[number] = rows
    return groups


def _compute_group(model: ServedModel, group: dict[int, CheckedRows], errors: dict[int, Exception]) -> Iterator[Batch]:
    if len(group) > 1:
        with suppress(Exception):  # then each request is computed alone, below, so that only the wrong ones fail
            rows = model.row_features.compute_together(list(group.values()))
            yield Batch(list(group), [checked_rows.count for checked_rows in group.values()], rows)
            return
    for number, checked_rows in group.items():
        try:
            yield Batch([number], [checked_rows.count], model.row_features.compute_checked_rows(checked_rows))
        except Exception as error:
            errors[number] = error


def _score_request(
    model: ServedModel, batch: Batch, lookup_result: LookupResult | None, begin: int, count: int
) -> RequestScores | Exception:
    """Score one request of a batch: `count` rows, from the position `begin`. Return its scores, or its error."""
    try:
        own_lookups = lookup_result.slice(begin, count) if lookup_result else None
        return RequestScores(
            model.score(batch.rows.slice(begin, count), own_lookups), _count_lookups(lookup_result, begin, count)
        )
    except Exception as error:
        return error


def _count_lookups(lookup_result: LookupResult | None, begin: int, count: int) -> dict[str, dict[str, int]]:
    return lookup_result.slice(begin, count).count() if lookup_result else {}
