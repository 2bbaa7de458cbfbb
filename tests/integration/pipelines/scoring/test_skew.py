"""Compare the requests that an endpoint captured with the lake: none differs, values differ, and too few requests."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pipelines.cli.app import build_app
from pipelines.dataset import load_dataset
from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.partitions import Hour, Month
from pipelines.serving.skew.comparison import Skew, Verdict
from pipelines.serving.skew.results_table import Origin, read_history, write_skew
from pipelines.steps import collect, score, skew
from tests.integration.pipelines.scoring.conftest import DAY, CaptureFolder, Publish, read_inputs
from tests.tools.kill_points import draw_moments, is_killed, run_until

FLIGHTS = load_dataset("flights")
SKEW_TABLE = "flights_skew"
AT = dt.datetime(2013, 2, 1, 8, tzinfo=dt.UTC)
Rows = list[dict[str, Any]]


@pytest.fixture
def collect_rows(capture: CaptureFolder) -> Callable[[Rows], Path]:
    """Return the function that captures requests for rows, a minute after those before, and collects the partition."""
    moments = iter(range(60))

    def request_and_collect(rows: Rows) -> Path:
        capture.request(rows, AT + dt.timedelta(minutes=next(moments)))
        spec = {"model": "scored", "version": "champion", "endpoint": "online", "captured": str(capture.folder)}
        result = collect.run(collect.CollectSpec(dataset="flights", partition=DAY, **spec))
        assert result.rows
        return result.rows

    return request_and_collect


def run(**fields: Any) -> skew.SkewResult:
    values = {"dataset": "flights", "model": "scored", "version": "champion", "endpoint": "online", **fields}
    return skew.run(skew.SkewSpec.parse({"partition": DAY, **values}, "test"))


def test_requests_that_saw_the_lake_have_no_skew_and_those_with_other_values_have(
    collect_rows: Callable[[Rows], Path], batch_twin: score.ScoreResult, champion: str
) -> None:
    records = read_inputs(batch_twin)
    rows = collect_rows(records)
    result = run(rows=rows)
    assert (result.outcome, result.rows, result.unmatched, result.different_shares) == ("ok", len(records), 0, {})
    assert (result.versions, result.reason, result.fail, result.changed) == ([champion], "", False, True)
    stored = Lake.open().read_partition(SKEW_TABLE, DAY)
    assert sorted(stored["name"].to_pylist()) == sorted([*FLIGHTS.features, "score"])
    assert run(rows=rows) == result.model_copy(update={"changed": False}), "an equal result commits nothing"
    assert run(rows=rows, min_rows=len(records) + 1).outcome == "undecided"

    # The newest request of each key counts: `materialize` was left out, so that 30 rows have the default.
    wrong = [{**row, "departures_hour": 21.5} for row in records[:30]]
    result = run(rows=collect_rows(wrong), on_skew="fail")
    assert (result.outcome, result.rows, result.fail, result.changed) == ("skew", len(records), True, True)
    assert result.different_shares["departures_hour"] == 30 / len(records)
    assert set(result.different_shares) == {"departures_hour", "score"} and result.different_shares["score"] > 0
    assert result.reason.startswith("more than 1.00% of the rows differ in departures_hour (")
    assert not run(rows=rows).fail, "by default, skew is reported"
    assert run(rows=rows, max_share=0.05).outcome == "ok"


def test_rows_that_the_lake_does_not_have_are_counted(
    collect_rows: Callable[[Rows], Path], batch_twin: score.ScoreResult
) -> None:
    records = read_inputs(batch_twin)[:100]
    result = run(rows=collect_rows([*records, {**records[0], "flight": 32_000}]))
    assert (result.outcome, result.rows, result.unmatched) == ("ok", 100, 1)


def test_history_lists_each_partition_and_endpoint_once(
    collect_rows: Callable[[Rows], Path],
    batch_twin: score.ScoreResult,
    champion: str,
    fresh_settings: Callable[[], None],
) -> None:
    rows = collect_rows(read_inputs(batch_twin)[:50])
    for endpoint in ("online", "other", "online"):
        run(rows=rows, endpoint=endpoint)

    def list_history(*options: str) -> str:
        arguments = ["skew_history", "scored", "--dataset", "flights", *options]
        return CliRunner().invoke(build_app("skew_history"), arguments, catch_exceptions=False).stdout

    line = f"2013-02-01  {{}}  version {champion}  undecided  50 rows, 0 unmatched: nothing differs"
    assert list_history().splitlines() == [line.format("online"), line.format("other")]
    assert list_history("--from", "2013-02-02") == "No requests of scored were compared with the lake.\n"
    first = json.loads(list_history("--json", "--to", "2013-02-01"))[0]
    assert (first["endpoint"], first["reason"]) == ("online", "50 rows of requests, and 100 are needed")


@pytest.mark.parametrize(
    ("unit", "partitions"),
    [
        ("hour", [Hour(DAY, 5), Hour(DAY, 17)]),
        ("month", [Month(dt.date(2013, 1, 1)), Month(dt.date(2013, 2, 1))]),
    ],
)
def test_results_of_hours_and_months_are_stored_too(home: Path, unit: Any, partitions: list[Any]) -> None:
    dataset, origin = replace(FLIGHTS, name="skewed", key=("date", "hour"), partition=unit), Origin("m", "1", "online")
    found, verdict = Skew(4, 1, {"distance": 1, "leeway.score": 0}), Verdict("skew", "more than 1.00%")
    for partition in reversed(partitions):
        assert write_skew(Lake.open(), dataset, partition, origin, found, verdict, 0.01)
    assert not write_skew(Lake.open(), dataset, partitions[0], origin, found, verdict, 0.01)
    history = read_history(Lake.open(), dataset, "m")
    assert [item.partition for item in history] == [str(partition) for partition in partitions]
    assert history[0].different_shares == {"distance": 0.25}


def test_wrong_requests_are_refused(
    collect_rows: Callable[[Rows], Path], batch_twin: score.ScoreResult, publish: Publish, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=r"give requests, a folder of `serve --record`, or rows, a file of `collect`"):
        run(version="")
    with pytest.raises(SpecError, match="rows needs version"):
        run(rows="rows.parquet", version="")
    with pytest.raises(SpecError, match="requests has no effect beside rows"):
        run(rows="rows.parquet", requests="requests")
    with pytest.raises(DataError, match=r"nowhere.parquet cannot be read: .*Run `collect` again"):
        run(rows="nowhere.parquet")
    rows = collect_rows(read_inputs(batch_twin)[:5])
    pq.write_table(pq.read_table(rows).drop_columns(["distance"]), tmp_path / "old.parquet")
    with pytest.raises(DataError, match=r"old.parquet lacks the columns distance"):
        run(rows=tmp_path / "old.parquet")
    with pytest.raises(DataError, match="flights has no partition 2013-02-02"):
        run(rows=rows, partition="2013-02-02")


@pytest.mark.soak
def test_a_killed_comparison_leaves_all_results_or_none_and_a_repetition_completes_them(
    collect_rows: Callable[[Rows], Path],
    batch_twin: score.ScoreResult,
    champion: str,
    commands: Any,
    with_mlflow: str,
) -> None:
    rows = collect_rows(read_inputs(batch_twin)[:200])
    part = {"model_name": "scored", "model_version": champion, "endpoint": "online"}
    options = {"dataset": "flights", "partition": str(DAY), "model": "scored", "version": champion, "rows": str(rows)}
    arguments = [text for name, value in {**options, "endpoint": "online"}.items() for text in (f"--{name}", value)]

    def count_rows() -> int:
        return Lake.open().count_rows_of_partitions(SKEW_TABLE, [DAY]).get(DAY, 0)

    whole_run = run_until(commands, 0, "skew", *arguments)
    assert whole_run.code == 0, whole_run.err
    expected = count_rows()
    assert expected == len(FLIGHTS.features) + 1
    for moment in draw_moments(whole_run, 3, seed=7):
        Lake.open().clear_partition(SKEW_TABLE, DAY, part)
        assert is_killed(run_until(commands, moment, "skew", *arguments))
        assert count_rows() in (0, expected)
        run(rows=rows)
        assert count_rows() == expected
