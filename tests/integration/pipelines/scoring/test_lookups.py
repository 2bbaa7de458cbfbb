"""Serve single rows whose other features are looked up: after `materialize`, they have the bits of the batch scores."""

from __future__ import annotations

import datetime as dt
import json
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pytest

from pipelines.container.serving.feature_query import connect
from pipelines.container.serving.lookups import LookupReader, Outcome
from pipelines.container.serving.online_records import OnlineRecords
from pipelines.container.serving.row_features import RowFeatures
from pipelines.container.serving.tables import Table
from pipelines.dataset import load_dataset
from pipelines.datasets.flights import features as flights_features
from pipelines.errors import DataError
from pipelines.features import engines
from pipelines.features.building import build_labelled_features
from pipelines.features.columns import KEY_PREFIX
from pipelines.features.earlier_values import find_first_needed_day, run_features
from pipelines.lake import Lake
from pipelines.lookups import Lookup
from pipelines.online.declarations import name_group
from pipelines.online.materialize import RecordCounts, materialize, read_records
from pipelines.online.store import OnlineStore
from pipelines.scoring import scores
from pipelines.serving.compilation import compile_features
from pipelines.steps import materialize as step
from pipelines.steps import score, skew
from tests.integration.pipelines.scoring.conftest import DAY, Publish, Server, StartDrydock

FLIGHTS = load_dataset("flights")
(HOUR,) = FLIGHTS.lookups
NEXT_DAY = DAY + dt.timedelta(1)
HIDDEN = {FLIGHTS.label, *FLIGHTS.known_later, *HOUR.features}


@pytest.fixture
def store(start_drydock: StartDrydock) -> OnlineStore:
    """Return the online store of a new drydock."""
    start_drydock()
    return OnlineStore.open()


def read_predictions() -> dict[tuple[Any, ...], float]:
    """Return the batch scores of the day by key."""
    table = Lake.open().read_partition("flights_predictions", DAY)
    columns = (table[name].to_pylist() for name in (*FLIGHTS.key, "score"))
    return {tuple(values[:-1]): values[-1] for values in zip(*columns, strict=True)}


def list_rows(day: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a day as a client has them: without the weather, the label and what is known later."""
    return day.select([name for name in day.column_names if name not in HIDDEN]).to_pylist()


@pytest.mark.parametrize("max_single_rows", [60, pytest.param(10_000, marks=pytest.mark.soak)])
def test_single_rows_have_the_bits_of_the_batch_with_materialized_values(
    publish: Publish,
    champion: str,
    commands: Any,
    with_mlflow: str,
    start_drydock: StartDrydock,
    until: Any,
    max_single_rows: int,
) -> None:
    """Each row of the day is sent in one request of all, and so many of them alone."""
    rows = list_rows(publish())
    single_rows = rows[:max_single_rows]
    score.run(score.ScoreSpec(dataset="flights", model="scored", partition=DAY))
    predictions = read_predictions()
    expected = [predictions[tuple(row[name] for name in FLIGHTS.key)] for row in rows]
    drydock = start_drydock()
    commands.env["MLFLOW_TRACKING_URI"] = with_mlflow
    arguments = ("serve", "--model", "scored", "--dataset", "flights", "--port", "0", "--record", "requests")
    server = Server(commands.start(sys.executable, "-m", "pipelines", *arguments))
    line = server.child.stdout.readline()
    assert line.startswith(
        "read from the online store, with a default for a missing value: departures_hour, weather_temp"
    )

    # The control: before `materialize`, the rows have the defaults, which are counted, and other scores.
    answers = [server.invoke(row)[1] for row in rows[:20]]
    assert [answer["lookups"] for answer in answers] == [{"hour": {"missing": 1}}] * 20
    defaults = [answer["scores"][0] for answer in answers]
    assert sum(one != other for one, other in zip(defaults, expected, strict=False)) > 10

    results = [commands.run_step("materialize", "--dataset", "flights", "--model", "scored") for _ in range(2)]
    first, second = (json.loads(result.out) for result in results)
    assert first["records"] == first["written"] > 40 and first["partitions"] == ["2013-02-01"]
    assert (second["records"], second["written"]) == (first["records"], 0)

    with ThreadPoolExecutor(8) as pool:
        answers = [answer for _, answer in pool.map(server.invoke, single_rows)]
    assert [answer["scores"][0] for answer in answers] == expected[: len(single_rows)]
    assert {str(answer["lookups"]) for answer in answers} == {"{'hour': {'found': 1}}"}
    answer = server.invoke(rows)[1]
    assert len(rows) > 700
    assert (answer["scores"], answer["lookups"]) == (expected, {"hour": {"found": len(rows)}})
    status = server.ping()
    assert status["lookups"] == {"hour": {"found": len(single_rows) + len(rows), "missing": 20}}
    assert (status["features_of_other_rows"], status["lookup_latency"]["p99_ms"] > 0) == ([], True)

    # Without the store, requests are answered with the defaults, and after its restart with its values.
    drydock.kill()
    drydock.wait(60)
    answers = [server.invoke(row)[1] for row in rows[:20]]
    assert [answer["lookups"] for answer in answers] == [{"hour": {"unreachable": 1}}] * 20
    assert [answer["scores"][0] for answer in answers] == defaults
    start_drydock()
    until(lambda: "found" in server.invoke(rows[0])[1]["lookups"]["hour"])
    assert [server.invoke(row)[1]["scores"][0] for row in rows[:20]] == expected[:20]
    server.child.send_signal(signal.SIGTERM)
    _, stderr = server.child.communicate(timeout=180)
    assert stderr.count("defaults are used instead of looked-up features: the online store does not answer") == 1
    assert stderr.count("the online store answers again") == 1
    check_skew(commands.cwd / "requests", champion, len(single_rows) + len(rows))


def check_skew(folder: Path, version: str, found_rows: int) -> None:
    """Compare what requests saw with the lake: first all of them, then those whose values were found."""
    spec = skew.SkewSpec(dataset="flights", model="scored", partition=DAY, requests=folder)
    result = skew.run(spec)
    assert (result.outcome, result.versions, result.unmatched) == ("skew", [version], 0)
    # Of each 20 requests before `materialize` and without the store, more than 10 rows have another score.
    assert (
        result.rows > found_rows and 20 / result.rows < result.different_shares["departures_hour"] <= 60 / result.rows
    )
    assert {"departures_hour", "weather_temp", "score"} <= set(result.different_shares)
    assert not set(result.different_shares) & {"distance", "weekday", "plane_age"}
    assert "departures_hour" in result.reason
    assert skew.run(spec.model_copy(update={"max_share": 0.1})).outcome == "ok"
    assert skew.run(spec.model_copy(update={"min_rows": 10_000})).outcome == "undecided"

    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    found_folder = folder.parent / "found"
    found_folder.mkdir()
    # The weather of the day is never missing, as it is in the defaults.
    found = [line for line in lines if json.loads(line)["features"]["weather_temp"] is not None]
    (found_folder / "a.jsonl").write_text("\n".join(found) + '\n{"cut')  # the server was killed while it wrote
    result = skew.run(spec.model_copy(update={"requests": found_folder}))
    assert (result.outcome, result.rows, result.different_shares, result.reason) == ("ok", len(found), {}, "")
    assert found_rows < len(found) < len(lines)


def test_an_interrupted_materialization_ends_the_same(
    publish: Publish, commands: Any, store: OnlineStore, until: Any
) -> None:
    publish()
    publish(NEXT_DAY)
    group, lake = name_group(FLIGHTS, HOUR), Lake.open()
    records = {day: read_records(lake, FLIGHTS, HOUR, day) for day in (DAY, NEXT_DAY)}
    names = [name for day in records for name in records[day]]
    child = commands.start(sys.executable, "-m", "pipelines", "materialize", "--dataset", "flights")
    # A few names and short pauses: the child writes all of them within a second. The newest partition is the first.
    first_names = list(records[NEXT_DAY])[:5]
    until(lambda: store.read({group: first_names}) or child.poll() is not None, max_pause_s=0.01)
    child.kill()
    child.wait(60)
    assert 0 < len(store.read({group: names})) < len(names)
    result = step.run(step.MaterializeSpec(dataset="flights"))
    assert (result.partitions, result.records) == ([NEXT_DAY, DAY], len(names)) and 0 < result.written < len(names)
    stored = store.read({group: names})
    assert {name: stored[group, name] for name in names} == records[DAY] | records[NEXT_DAY]


@pytest.fixture
def by_origin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return flights with one feature, the number of an airport's flights on the day, looked up by airport."""

    def features(rows: ibis.Table) -> ibis.Table:
        count = rows.count().over(ibis.window(group_by=[rows.date, rows.origin]))
        return rows.mutate(airport_flights=count)

    monkeypatch.setattr(flights_features, "features", features)
    lookup = Lookup("airport", {"airport_flights": 100.5}, ("origin",), dt.timedelta(days=3))
    return replace(FLIGHTS, features={"airport_flights": "number"}, lookups=[lookup])


def test_the_newest_partition_wins_and_its_last_write(publish: Publish, store: OnlineStore, by_origin: Any) -> None:
    def write(day: dt.date) -> RecordCounts:
        return materialize(Lake.open(), store, by_origin, by_origin.lookups[0], day, 0)

    def read() -> dict[str, float]:
        records = store.read({name_group(by_origin, by_origin.lookups[0]): ['["EWR"]', '["JFK"]', '["LGA"]']})
        return {name: float(record.values["airport_flights"]) for (_, name), record in records.items()}

    counts = {day: count_by_airport(publish(day)) for day in (DAY, NEXT_DAY)}
    assert counts[DAY] != counts[NEXT_DAY]
    assert write(NEXT_DAY) == RecordCounts(3, 3) and read() == counts[NEXT_DAY]
    assert write(DAY) == RecordCounts(3, 0) and read() == counts[NEXT_DAY]
    # A correction of the newest day counts, and one of an older day does not, though it is written later.
    fewer = count_by_airport(publish(NEXT_DAY, lambda rows: rows.slice(0, 500)))
    assert write(NEXT_DAY) == RecordCounts(3, 3) and read() == fewer != counts[NEXT_DAY]
    publish(DAY, lambda rows: rows.slice(0, 400))
    assert write(DAY) == RecordCounts(3, 0) and read() == fewer
    assert write(NEXT_DAY) == RecordCounts(3, 0)


def count_by_airport(rows: pa.Table) -> dict[str, float]:
    """Return the number of flights by the identifier of their airport."""
    counts = rows.group_by("origin").aggregate([([], "count_all")]).to_pylist()
    return {f'["{item["origin"]}"]': float(item["count_all"]) for item in counts}


def test_missing_old_and_future_values_are_the_default(
    publish: Publish, store: OnlineStore, by_origin: Any, caplog: pytest.LogCaptureFixture
) -> None:
    day = publish()
    count = count_by_airport(day)['["JFK"]']
    materialize(Lake.open(), store, by_origin, by_origin.lookups[0], DAY, 0)
    lookups = compile_features(by_origin, day.schema, has_lookups=True).lookups
    reader = LookupReader(lookups, by_origin.features, OnlineRecords(10.0, 1, 1))
    keys = pa.table({f"{KEY_PREFIX}origin": ["JFK", "JFK", "JFK", "BOS", None]})
    begin = dt.datetime.combine(DAY, dt.time(), dt.UTC)
    lookup_result = reader.look_up(keys, [begin + dt.timedelta(days) for days in (0, 3, 4, 0, 0)])
    assert lookup_result.columns["airport_flights"] == [100.5, count, 100.5, 100.5, 100.5]
    expected = [Outcome.TOO_NEW, Outcome.FOUND, Outcome.TOO_OLD, Outcome.MISSING, Outcome.MISSING]
    assert lookup_result.outcomes == {"airport": expected}
    assert (
        lookup_result.count()
        == reader.describe()["lookups"]
        == {"airport": {"found": 1, "missing": 2, "too_old": 1, "too_new": 1}}
    )


def list_features(table: pa.Table) -> dict[tuple[Any, ...], list[Any]]:
    """Return the features of each row by its key."""
    keys, features = (table.select(names).to_pylist() for names in (list(FLIGHTS.key), list(FLIGHTS.features)))
    return {tuple(key.values()): list(row.values()) for key, row in zip(keys, features, strict=True)}


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.soak])])
def test_a_request_of_today_has_the_features_of_the_batch_and_of_a_later_training(
    publish: Publish, store: OnlineStore, engine: Any, request: pytest.FixtureRequest
) -> None:
    """The day of the request is not published yet, so the key of the lookup cannot name it."""
    if engine == "spark":
        request.getfixturevalue("java")
    lookup = replace(HOUR, key=("origin", "departs_hour"))
    dataset, lake = replace(FLIGHTS, lookups=[lookup]), Lake.open()
    schema = publish(DAY).schema
    materialize(lake, store, dataset, lookup, DAY, 0)
    compiled = compile_features(dataset, schema, has_lookups=True)
    reader = LookupReader(compiled.lookups, compiled.features, OnlineRecords(10.0, 1, 1))
    today = list_rows(publish(NEXT_DAY))  # the lookup's values of this day are not materialized
    with closing(connect()) as connection:
        row_features = RowFeatures(compiled, connection, reader, has_keys=True)
        rows = row_features.compute(Table(today))
        lookup_result = row_features.look_up(rows)
        answered = row_features.join(rows, lookup_result, compiled.features)
        assert lookup_result and lookup_result.count()["hour"]["found"] > 500
        requests = {
            tuple(row[name] for name in FLIGHTS.key): list(values.values())
            for row, values in zip(today, answered.to_pylist(), strict=True)
        }
        with scores.read_rows(lake, dataset, NEXT_DAY) as (_, batches):
            batch = list_features(pa.Table.from_batches(batches))
        assert batch == requests
        assert batch != list_own_features(lake, NEXT_DAY), "the control"

        begin = dt.datetime.combine(NEXT_DAY, dt.time(), dt.UTC)
        with (
            lake.open_files("flights", find_first_needed_day(dataset, begin), NEXT_DAY) as (paths, columns),
            engines.open_engine(engine, paths, columns) as run,
        ):
            table = pa.Table.from_batches(list(run_features(run, dataset, build_labelled_features, begin, NEXT_DAY)))
            trained = list_features(table)
        assert len(trained) > 500 and trained == {key: batch[key] for key in trained}

        materialize(lake, store, dataset, lookup, NEXT_DAY, 0)
        late = row_features.look_up(row_features.compute(Table(today)))
        assert late and late.count() == {"hour": {"too_new": late.count()["hour"]["too_new"]}}


def list_own_features(lake: Lake, day: dt.date) -> dict[tuple[Any, ...], list[Any]]:
    """Return the features of each row of the day by its key, as without lookups."""
    with scores.read_rows(lake, replace(FLIGHTS, lookups=[]), day) as (_, batches):
        return list_features(pa.Table.from_batches(batches))


def test_a_key_with_several_values_is_refused(publish: Publish, store: OnlineStore) -> None:
    publish()
    lookup = replace(HOUR, key=("date", "origin"))
    dataset = replace(FLIGHTS, lookups=[lookup])
    with pytest.raises(DataError, match=r'the key \["2013-02-01","\w+"\] has several values of .*departures_hour'):
        materialize(Lake.open(), store, dataset, lookup, DAY, 0)


def test_a_store_that_did_not_answer_can_be_tried_again(
    publish: Publish, start_drydock: StartDrydock, commands: Any
) -> None:
    publish()
    result = commands.run_step("materialize", "--dataset", "flights")
    assert (result.code, result.out) == (75, "") and "the online store does not answer" in result.err, result.err
    del commands.env["AWS_DEFAULT_REGION"]
    result = commands.run_step("materialize", "--dataset", "flights")
    assert (result.code, result.out) == (2, "") and "no online store is configured" in result.err, result.err
    result = commands.run_step("materialize", "--dataset", "weather")
    assert (result.code, result.out) == (2, "") and "the dataset weather has no lookups" in result.err, result.err
    result = commands.run_step("materialize", "--dataset", "flights", "--partition", "2013-05-05")
    assert (result.code, result.out) == (2, "") and "flights has no partition 2013-05-05" in result.err, result.err
