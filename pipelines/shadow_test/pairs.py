"""Pair the answers of both variants of an endpoint to the same request. Requests are compared by their bodies.

Data capture gives each record its own event id, and only some clients send an inference id. But the copy that the
shadow variant gets has the same bytes as the request. If a body was sent several times, its answers are paired in the
order of the files. The order has no effect on the compared scores, because equal rows have equal scores.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pipelines.container.serving.tables import Table, parse_table
from pipelines.dataset import Task
from pipelines.errors import DataError
from pipelines.evaluation.statistics.inputs import Array
from pipelines.score_columns import MEDIAN
from pipelines.serving.captured_requests import Capture, UnparsedRequest, parse_without_rows, read_lines
from pipelines.shadow_test.latency import PairedTimes

MAX_ROWS = 200_000
"""Largest number of rows that are compared."""
HOUR = dt.timedelta(hours=1)
Scores = Array | pd.DataFrame
"""Scores of rows: shape (rows,), or a frame with a column for each class."""


class Period(NamedTuple):
    """The time of a shadow, UTC."""

    since: dt.datetime
    until: dt.datetime

    @property
    def folders(self) -> Iterator[str]:
        """Folders of the hours of the shadow, and of the hour after it, because lines are written with a delay."""
        hour = self.since.replace(minute=0, second=0, microsecond=0)
        while hour <= self.until + HOUR:
            yield f"{hour:%Y/%m/%d/%H}"
            hour += HOUR


class ShadowAnswer(NamedTuple):
    """An answer of the shadow variant."""

    scores: list[Any]
    latency_ms: float | None
    """Milliseconds that the scores took; None if the answer does not contain this time."""


class ShadowScores(NamedTuple):
    """Scores of the requests that the shadow variant answered."""

    answers_by_body: Mapping[bytes, deque[ShadowAnswer]]
    """Maps the digest of each request to the shadow variant's answers to it."""
    lines: int
    """Number of captured lines of the shadow variant, including lines without scores."""


@dataclass
class Pairs:
    """The rows that both versions scored. All lists have the same order."""

    requests: int = 0
    """Number of requests that both versions answered with scores."""
    champion: list[Any] = field(default_factory=list)
    """The champion's score of each row: a number, or a probability for each class."""
    challenger: list[Any] = field(default_factory=list)
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    """Each row by column name; empty if the request had lists of values."""
    text_rows: list[bool] = field(default_factory=list)
    """Whether the values of each row are text, as in CSV."""
    latencies_ms: list[tuple[float, float]] = field(default_factory=list)
    """Milliseconds that the champion's and the challenger's scores took, for each request with both times."""

    def get_times(self) -> PairedTimes:
        """Return the times of the scores, request by request, in the order in which the requests were captured."""
        times = np.asarray(self.latencies_ms, dtype=float).reshape(len(self.latencies_ms), 2)
        return PairedTimes(times[:, 0], times[:, 1])

    def tabulate(self) -> tuple[Scores, Scores]:
        """Return the scores of the champion and of the challenger; if there are classes, with the same columns.

        Raises:
            DataError: the classes cannot be compared: for example, only one version names them. A retry cannot help.
        """
        if not self.champion or not isinstance(self.champion[0], Mapping):
            return np.asarray(self.champion, dtype=float), np.asarray(self.challenger, dtype=float)
        champion = _tabulate_classes("the champion", self.champion)
        challenger = _tabulate_classes("the challenger", self.challenger)
        if not champion.columns.intersection(challenger.columns).size:
            class_names = [", ".join(sorted(frame.columns)[:5]) for frame in (champion, challenger)]
            raise DataError(
                f"the champion's scores have the classes {class_names[0]}, and the challenger's have {class_names[1]}: "
                "no class is the same."
            )
        classes = sorted({*champion.columns, *challenger.columns})
        return champion.reindex(columns=classes, fill_value=0.0), challenger.reindex(columns=classes, fill_value=0.0)


def _tabulate_classes(version: str, scores: Sequence[Mapping[str, float]]) -> pd.DataFrame:
    """Return the probabilities of a version's answers, with a column for each class."""
    frame = pd.DataFrame(scores)
    if frame.isna().to_numpy().any():
        raise DataError(
            f"{version}'s answers do not all have the same classes; there are {', '.join(frame.columns[:5])}."
        )
    return frame


def read_shadow_scores(capture: Capture, period: Period, task: Task) -> ShadowScores:
    """Read the scores that the shadow variant gave, up to `MAX_ROWS` rows.

    Raises:
        DataError: the location is neither an s3:// URI nor a folder. A retry cannot help.
    """
    answers_by_body: dict[bytes, deque[ShadowAnswer]] = {}
    counts = Counter[str]()
    for request in _read_requests(capture, period):
        counts["lines"] += 1
        scores = read_scores(task, request.scores) if request else []
        if request and scores and counts["rows"] + len(scores) <= MAX_ROWS:
            counts["rows"] += len(scores)
            answer = ShadowAnswer(scores, request.latency_ms)
            answers_by_body.setdefault(_digest(request), deque()).append(answer)
    return ShadowScores(answers_by_body, counts["lines"])


def pair_requests(capture: Capture, period: Period, task: Task, shadow_scores: ShadowScores) -> Pairs:
    """Read the requests that the production variant answered, and pair each with the shadow variant's answer.

    Paired answers are removed from `shadow_scores`.

    Raises:
        DataError: the location is neither an s3:// URI nor a folder. A retry cannot help.
    """
    pairs = Pairs()
    for request in _read_requests(capture, period):
        scores = read_scores(task, request.scores) if request else []
        answers = shadow_scores.answers_by_body.get(_digest(request)) if request and scores else None
        if request and answers and len(answers[0].scores) == len(scores):
            answer = answers.popleft()
            pairs.requests += 1
            pairs.champion += scores
            pairs.challenger += answer.scores
            times = [time for time in (request.latency_ms, answer.latency_ms) if time is not None and np.isfinite(time)]
            if len(times) == 2:
                pairs.latencies_ms.append((times[0], times[1]))
            table = _parse_rows(request, len(scores))
            pairs.rows += table.rows
            pairs.text_rows += [table.is_text] * len(scores)
    return pairs


def read_scores(task: Task, scores: Sequence[Any]) -> list[Any]:
    """Return the scores of an answer as numbers, or as probabilities by class; empty if one of them is not a score."""
    try:
        return [_read_score(task, score) for score in scores]
    except (TypeError, ValueError, KeyError):
        return []


def _read_score(task: Task, score: Any) -> Any:
    if task == "multiclass":
        # A list has the classes in the order of the model, without their names.
        items = score.items() if isinstance(score, Mapping) else enumerate(_require_list(score))
        return {str(name): _check_number(value) for name, value in items}
    if task == "regression" and isinstance(score, Mapping):
        return _check_number(score[MEDIAN])
    return _check_number(score)


def _require_list(score: Any) -> list[Any]:
    if not isinstance(score, list):
        raise ValueError("not a list of the probabilities of classes")
    return score


def _check_number(value: Any) -> float:
    number = float(value)
    if isinstance(value, str | bool) or not np.isfinite(number):
        raise ValueError("not a finite number")
    return number


def _read_requests(capture: Capture, period: Period) -> Iterator[UnparsedRequest | None]:
    """Yield the requests of the period with their answers; None for a line without scores."""
    since = period.since.replace(microsecond=0)  # captured times have whole seconds
    for folder in period.folders:
        for request in map(parse_without_rows, read_lines(capture, folder)):
            if request is None or since <= request.requested_at <= period.until:
                yield request


def _digest(request: UnparsedRequest) -> bytes:
    return hashlib.sha256(request.content_type.encode() + b"\0" + request.body).digest()


def _parse_rows(request: UnparsedRequest, count: int) -> Table:
    """Return the rows by column name; `count` empty rows if the body does not have `count` rows by column name."""
    try:
        table = parse_table(request.body, request.content_type)
    except ValueError:
        return Table([{}] * count)
    return table if len(table.rows) == count else Table([{}] * count)
