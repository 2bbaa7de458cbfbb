"""Requests that are computed together have the scores and the errors that each has alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pytest

from pipelines.container.serving.compiled_features import CompiledFeatures
from pipelines.container.serving.feature_query import connect
from pipelines.container.serving.row_features import RowFeatures
from pipelines.datasets.flights import DATASET
from pipelines.datasets.flights import features as flights_features
from pipelines.serving import batches as batches_module
from pipelines.serving.batches import Request, compute_batches, score_batch
from pipelines.serving.compilation import compile_features
from pipelines.serving.recording import Recorder, read_recorded_rows
from pipelines.serving.served_model import ServedModel

Build = Callable[[ibis.Table], ibis.Table]


@pytest.fixture
def model(served_model: ServedModel) -> ServedModel:
    """Return the served model, whose scores of a row do not depend on the other rows."""
    return replace(served_model, can_score_together=True)


@pytest.fixture
def make_model(model: ServedModel, day: pa.Table, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Return the function that makes a model of one feature x, whose score is x."""
    with ExitStack() as connections:

        def make(build: Build, **changes: Any) -> ServedModel:
            monkeypatch.setattr(flights_features, "features", build)
            dataset = replace(DATASET, features={"x": "number"}, lookups=[])
            compiled = compile_features(dataset, day.schema, has_lookups=False)
            row_features = RowFeatures(compiled, connections.enter_context(closing(connect())))
            return replace(model, row_features=row_features, scorer=lambda table: table["x"].to_numpy(), **changes)

        yield make


def encode(rows: Any) -> Request:
    return Request(rows if isinstance(rows, bytes) else json.dumps(rows).encode(), "application/json")


def answer(model: ServedModel, requests: list[Any]) -> tuple[list[list[int]], list[Any]]:
    """Return the positions of the requests in each batch, and the scores or the error of each request."""
    batches, errors = compute_batches(model, [encode(rows) for rows in requests])
    results: dict[int, Any] = {number: str(error) for number, error in errors.items()}
    for batch in batches:
        for position, result in zip(batch.positions, score_batch(model, batch, None), strict=True):
            results[position] = str(result) if isinstance(result, Exception) else result.scores
    return [list(batch.positions) for batch in batches], [results[position] for position in range(len(requests))]


@pytest.mark.slow
def test_one_row_requests_of_a_whole_day_have_the_bits_that_they_have_alone(model: ServedModel, rows: Any) -> None:
    """The feature departures_hour counts the rows of the same hour; each request has one."""
    alone = [answer(model, [row])[1][0] for row in rows]
    positions, together = answer(model, rows)
    assert together == alone
    assert [len(batch) for batch in positions[:-1]] == [batches_module.MAX_BATCH_ROWS] * (len(positions) - 1)
    assert answer(model, [rows])[1][0] != [score for scores in alone for score in scores], "the control: one request"


def test_requests_whose_features_look_at_their_neighbours_are_not_mixed(model: ServedModel, rows: Any) -> None:
    requests = [rows[:40], rows[40], rows[41:80], rows[80]]
    positions, together = answer(model, requests)
    assert positions == [[0], [1, 3], [2]]
    assert together == [answer(model, [request])[1][0] for request in requests]


def test_requests_of_many_rows_are_mixed_if_no_feature_reads_other_rows(make_model: Any) -> None:
    model = make_model(lambda rows: rows.mutate(x=rows.distance * 2))
    requests = [[{"distance": 1}, {"distance": 2}], {"distance": 3}, [{"distance": 4}]]
    assert answer(model, requests) == ([[0, 1, 2]], [[2.0, 4.0], [6.0], [8.0]])


@pytest.mark.parametrize(
    "build",
    [
        lambda rows: rows.left_join(rows.group_by("distance").agg(x=rows.count()), "distance"),
        lambda rows: rows.mutate(x=rows.distance + rows.distance.max().as_scalar()),
    ],
)
def test_requests_are_not_mixed_if_it_is_not_known_what_a_feature_reads(make_model: Any, build: Build) -> None:
    model = make_model(build)
    requests = [{"distance": 7}, {"distance": 7}, {"distance": 9}]
    positions, together = answer(model, requests)
    assert (positions, together[0]) == ([[0], [1], [2]], together[1])
    assert together[0] == answer(model, requests[:1])[1][0]


def test_features_of_an_older_registration_are_not_mixed(
    model: ServedModel, compiled: CompiledFeatures, rows: Any
) -> None:
    query = replace(compiled.query, separate_sql=None)
    with closing(connect()) as connection:
        older = replace(model, row_features=RowFeatures(replace(compiled, query=query), connection))
        positions, together = answer(older, rows[:3])
    assert (positions, together) == ([[0], [1], [2]], answer(model, rows[:3])[1])


def test_a_wrong_request_among_good_ones_gets_its_error_alone(model: ServedModel, rows: Any) -> None:
    bad = {**rows[1], "distance": "far"}
    requests = [rows[0], bad, b"{", rows[2], [rows[3], bad], rows[4]]
    positions, results = answer(model, requests)
    assert positions == [[0, 3, 5]]
    assert results[1] == "row 1, column distance: 'far' is not a whole number (int32)"
    assert results[4] == "row 2, column distance: 'far' is not a whole number (int32)"
    assert results[2].startswith("the body is not application/json")
    assert [results[position] for position in (0, 3, 5)] == [answer(model, [rows[n]])[1][0] for n in (0, 2, 4)]


def test_a_row_whose_features_cannot_be_computed_fails_alone(make_model: Any) -> None:
    model = make_model(lambda rows: rows.mutate(x=rows.distance.cast("int64") * 2**40))
    positions, results = answer(model, [{"distance": 1}, {"distance": 2**30}, {"distance": 2}])
    assert positions == [[0], [2]]
    assert (results[0], results[2]) == ([2.0**40], [2.0**41])
    assert results[1].startswith("the features cannot be computed from these rows: Out of Range")


def test_a_row_without_a_score_fails_alone(make_model: Any) -> None:
    model = make_model(lambda rows: rows.mutate(x=(rows.distance == 3).ifelse(float("nan"), rows.distance)))
    positions, results = answer(model, [{"distance": 1}, {"distance": 3}, {"distance": 2}])
    assert (positions, results[0], results[2]) == ([[0, 1, 2]], [1.0], [2.0])
    assert results[1].startswith("the model's score is not a number for 1 of 1 rows")


@pytest.mark.parametrize(("can_score_together", "expected"), [(True, [3.0, 3.0, 3.0]), (False, [1.0, 1.0, 1.0])])
def test_a_model_whose_scores_depend_on_other_rows_gets_each_request_alone(
    model: ServedModel, rows: Any, can_score_together: bool, expected: list[float]
) -> None:
    """The score is the number of rows of the call. The control is a model that promises too much."""
    counting = replace(
        model, scorer=lambda table: np.full(table.num_rows, table.num_rows), can_score_together=can_score_together
    )
    positions, results = answer(counting, rows[:3])
    assert positions == [[0, 1, 2]]
    assert [score for scores in results for score in scores] == expected


def test_the_rows_of_a_batch_are_bounded(make_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_module, "MAX_BATCH_ROWS", 3)
    model = make_model(lambda rows: rows.mutate(x=rows.distance * 2))
    row = {"distance": 1}
    assert answer(model, [row, [row] * 2, row, [row] * 4, [row] * 3])[0] == [[0, 1], [2], [3], [4]]


def test_recorded_rows_keep_their_own_key(
    model: ServedModel, compiled: CompiledFeatures, rows: Any, tmp_path: Any
) -> None:
    """Rows with and without the columns of the key are no table: they are computed apart."""
    without_flight = {name: value for name, value in rows[1].items() if name != "flight"}
    with closing(connect()) as connection:
        row_features = RowFeatures(compiled, connection, has_keys=True)
        recording = replace(model, row_features=row_features, recorder=Recorder(tmp_path))
        positions, results = answer(recording, [rows[0], without_flight, rows[2]])
    recorded = list(read_recorded_rows(tmp_path))
    assert positions == [[0, 2], [1]]
    assert [row["key"].get("flight") for row in recorded] == [rows[0]["flight"], rows[2]["flight"], None]
    assert [[row["score"]] for row in recorded] == [results[0], results[2], results[1]]
