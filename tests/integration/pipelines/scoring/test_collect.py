"""Collect the requests that an endpoint captured: a day and its batch twin have equal rows and profiles."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pandas as pd
import pytest

from pipelines.ab_test.outcome_sums import METRICS, sum_outcomes
from pipelines.dataset import load_dataset
from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.registry.lifecycle import Kind
from pipelines.registry.lifecycle.deployments import record_deployment
from pipelines.steps import collect, list_versions, outcomes, profile, score
from tests.integration.pipelines.scoring.conftest import DAY, CaptureFolder, read_inputs
from tests.tools.kill_points import draw_moments, is_killed, run_until

FLIGHTS = load_dataset("flights")
PART = {"model_name": "scored", "model_version": "1", "endpoint": "online", "variant": "AllTraffic"}


def run(capture: CaptureFolder, **fields: Any) -> collect.CollectResult:
    arguments = {"model": "scored", "version": "champion", "endpoint": "online", "captured": str(capture.folder)}
    return collect.run(collect.CollectSpec(dataset="flights", partition=DAY, **{**arguments, **fields}))


def test_a_captured_day_and_its_batch_twin_have_equal_rows_and_profiles(
    capture: CaptureFolder, batch_twin: score.ScoreResult
) -> None:
    at, records = dt.datetime(2013, 2, 1, 8, tzinfo=dt.UTC), read_inputs(batch_twin)
    capture.request(records[:1], at - dt.timedelta(hours=3), scores=[0.999])  # asked again later: the newest counts
    for _ in range(3):  # in the second of the next request, but before it: SageMaker gives no parts of a second
        capture.request(records[:50], at, scores=[0.999] * 50)
    for start in range(0, len(records), 100):
        capture.request(records[start : start + 100], at + dt.timedelta(seconds=start))
    capture.request(records[:1], at + dt.timedelta(days=2), scores=[0.999])  # after the days that are read

    result = run(capture)
    assert (result.scored, result.changed, result.unreadable, result.invalid) == (len(records), True, 0, 0)
    online, twin = (pd.read_parquet(item.rows) for item in (result, batch_twin))
    pd.testing.assert_frame_equal(online[twin.columns], twin)
    stored = Lake.open().read_partition("flights_requests", DAY)
    assert set(stored["endpoint"].to_pylist()) == {"online"} and len(set(stored["event_id"].to_pylist())) > 1
    assert all(latency_ms > 0 for latency_ms in stored["latency_ms"].to_pylist())
    assert not run(capture).changed, "the same requests commit nothing"

    profiles = {}
    for name, item in (("online", result), ("batch", batch_twin)):
        spec = profile.ProfileSpec(partition=DAY, rows=item.rows, model="scored", version=item.version)
        profiles[name] = profile.run(spec)
    assert profiles["batch"] == profiles["online"].model_copy(update={"changed": False}), "the same profile"


def test_the_report_of_an_ab_test_reads_online_scores(capture: CaptureFolder, batch_twin: score.ScoreResult) -> None:
    capture.request(read_inputs(batch_twin), dt.datetime(2013, 2, 1, 8, tzinfo=dt.UTC))
    version, window, metric = run(capture).version, (DAY, DAY), METRICS["binary"]["brier"]
    sums = sum_outcomes(Lake.open(), FLIGHTS, "scored", [version], window, metric, is_online=True)
    rows = pd.read_parquet(batch_twin.rows).dropna(subset=["late"])
    assert sums.row_counts == [len(rows)]
    assert sums.samples[0].mean == pytest.approx(((rows["score"] - rows["late"].astype(float)) ** 2).mean())
    with pytest.raises(DataError, match="no table"):
        sum_outcomes(Lake.open(), FLIGHTS, "scored", [version], window, metric)  # `outcomes` did not run


def test_an_answer_without_a_latency_is_collected_without_one(
    capture: CaptureFolder, batch_twin: score.ScoreResult
) -> None:
    capture.request(read_inputs(batch_twin)[:2], dt.datetime(2013, 2, 1, 8, tzinfo=dt.UTC), scores=[0.1, 0.2])
    assert run(capture).scored == 2
    assert Lake.open().read_partition("flights_requests", DAY)["latency_ms"].to_pylist() == [None, None]


def test_labels_are_joined_to_online_scores_as_to_those_of_the_batch(
    capture: CaptureFolder, batch_twin: score.ScoreResult
) -> None:
    spec = outcomes.OutcomesSpec(dataset="flights", model="scored", partition=DAY)
    online_spec = spec.model_copy(update={"online": True})
    assert outcomes.run(online_spec).reason == "scored has no requests of 2013-02-01."
    capture.request(read_inputs(batch_twin), dt.datetime(2013, 2, 1, 8, tzinfo=dt.UTC))
    run(capture)
    expected, result = outcomes.run(spec), outcomes.run(online_spec)
    assert (result.table, result.changed) == ("flights_request_outcomes", True)
    assert (result.outcomes, result.unlabelled) == (expected.outcomes, expected.unlabelled) and result.outcomes > 500
    online, batch = (Lake.open().read_partition(item.table, DAY) for item in (result, expected))
    assert online.select(batch.column_names).sort_by(sort_keys()) == batch.sort_by(sort_keys())
    assert set(online["endpoint"].to_pylist()) == {"online"}
    assert not outcomes.run(online_spec).changed


def sort_keys() -> list[tuple[str, str]]:
    return [(name, "ascending") for name in FLIGHTS.key]


def test_the_version_is_the_last_one_that_was_deployed_up_to_the_last_day(
    capture: CaptureFolder, batch_twin: score.ScoreResult, champion: str
) -> None:
    capture.folder.rename(capture.folder.with_name(champion))
    capture.folder = capture.folder.with_name(champion)
    today = dt.datetime.now(dt.UTC)
    capture.request(read_inputs(batch_twin)[:5], today)
    location = str(capture.folder.with_name("{version}"))
    fields = {"version": "", "captured": location, "first_day": today.date(), "last_day": today.date()}
    reason = f"no version of scored was deployed to online up to {today:%Y-%m-%d}."
    assert (run(capture, **fields).reason, run(capture, **fields).version) == (reason, "")
    record_deployment(Kind.DEPLOYED, "scored", champion, "online", "", {"config": "one"})
    record_deployment(Kind.DEPLOYED, "scored", "99", "another", "", {"config": "two"})
    result = run(capture, **fields)
    assert (result.version, result.endpoint, result.scored, result.reason) == (champion, "online", 5, "")
    days = {name: fields[name] for name in ("first_day", "last_day")}
    listed = {"dataset": "flights", "model": "scored", "endpoint": "online", "partition": DAY}
    spec = list_versions.ListVersionsSpec(**listed, **days)
    assert list_versions.run(spec).versions == [champion]
    assert list_versions.run(spec.model_copy(update={"version": "champion"})).versions == [champion]
    assert list_versions.run(list_versions.ListVersionsSpec(**listed)).versions == [], "not on the day of the rows"
    with pytest.raises(DataError, match="the registry has no scored version 77"):
        list_versions.run(spec.model_copy(update={"version": "77"}))
    assert "was deployed to online up to 2013-02-01" in run(capture, version="").reason
    assert "was deployed to scored up to" in run(capture, version="", endpoint="").reason


def test_what_cannot_be_used_is_counted(capture: CaptureFolder, batch_twin: score.ScoreResult) -> None:
    at, records = dt.datetime(2013, 2, 1, 8, tzinfo=dt.UTC), read_inputs(batch_twin)
    assert run(capture).reason == "online captured no row of 2013-02-01 on 2013-01-31..2013-02-01."
    features = [{name: row[name] for name in FLIGHTS.features} for row in records[:2]]
    capture.request(features, at)  # without the key
    capture.request([{**records[0], "date": "2013-02-02"}], at)
    for line in ("{", '{"captureData": {}}', json.dumps({"eventMetadata": {}, "captureData": {"endpointInput": 1}})):
        capture.write(line, at)
    capture.request(records[:3], at)
    capture.request(records[:1], at + dt.timedelta(seconds=1), scores=[float("nan")])
    result = run(capture)
    assert (result.requests, result.scored, result.invalid, result.rows_of_other_partitions, result.unreadable) == (
        3,
        3,
        2,
        1,
        4,
    )


def test_wrong_requests_are_refused(capture: CaptureFolder, batch_twin: score.ScoreResult) -> None:
    with pytest.raises(DataError, match=r"is neither an s3:// URI nor a folder\. Give the endpoint's DestinationS3Uri"):
        run(capture, captured="nowhere")
    with pytest.raises(SpecError, match="first_day 2013-03-01 is after last_day 2013-02-01"):
        run(capture, first_day="2013-03-01")
    with pytest.raises(DataError, match="has no scored version 99"):
        run(capture, version="99")
    with pytest.raises(ValueError, match="endpoint"):
        run(capture, endpoint="../up")


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.soak)])
def test_a_killed_step_leaves_all_rows_or_none_and_a_repetition_completes_them(
    capture: CaptureFolder, batch_twin: score.ScoreResult, commands: Any, with_mlflow: str, kills: int
) -> None:
    capture.request(read_inputs(batch_twin), dt.datetime(2013, 2, 1, 8, tzinfo=dt.UTC))
    options = {"model": "scored", "version": "champion", "endpoint": "online", "captured": str(capture.folder)}
    arguments = [text for name, value in options.items() for text in (f"--{name}", value)]

    def collect_until(kill_at: int) -> Any:
        return run_until(commands, kill_at, "collect", "--dataset", "flights", "--partition", str(DAY), *arguments)

    def count_rows() -> int:
        return Lake.open().count_rows_of_partitions(FLIGHTS.requests, [DAY]).get(DAY, 0)

    whole_run = collect_until(0)
    assert whole_run.code == 0, whole_run.err
    rows, expected = count_rows(), pd.read_parquet(json.loads(whole_run.out)["rows"])
    for moment in draw_moments(whole_run, kills, seed=7):
        Lake.open().clear_partition(FLIGHTS.requests, DAY, PART)
        assert count_rows() == 0
        assert is_killed(collect_until(moment))
        assert count_rows() in (0, rows)
        pd.testing.assert_frame_equal(pd.read_parquet(run(capture).rows), expected)
        assert count_rows() == rows
