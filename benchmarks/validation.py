"""Validation of 10 M rows x 10 columns by 18 checks, quarantine included, beside Great Expectations' pandas engine.

Each in a process of its own, with its imports: seconds of the whole process, and the most memory that it held.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
ROWS = 10_000_000
RUNS = 3
DAY = "2013-01-01"
TABLE = f"""
SELECT DATE '{DAY}' AS date, i AS id, (i * 7919 % 100000)::INTEGER AS account, i % 1000 = 0 AS test,
    ['EWR', 'JFK', 'LGA'][1 + i % 3] AS origin, 'AA' || (1000 + i % 9000) AS code,
    CASE WHEN i % 50 = 0 THEN NULL ELSE (hash(i) % 100000) / 100.0 END AS amount,
    CASE WHEN i % 1000003 = 0 THEN 1048.4 ELSE (hash(i + 1) % 600) / 10.0 END AS speed,
    (hash(i + 2) % 2400)::INTEGER AS hour, TIMESTAMPTZ '{DAY} 00:00:00+00' + (i % 86400) * INTERVAL 1 SECOND AS at
FROM range({{rows}}) AS t(i)
"""
CHECKS: list[tuple[str, str, dict[str, Any]]] = [
    ("critical", "expect_table_row_count_to_be_between", {"min_value": 1}),
    (
        "critical",
        "expect_table_columns_to_match_set",
        {"column_set": ["date", "id", "account", "test", "origin", "code", "amount", "speed", "hour", "at"]},
    ),
    *(
        ("critical", "expect_column_values_to_not_be_null", {"column": one})
        for one in ("date", "id", "account", "origin", "at")
    ),
    ("info", "expect_column_values_to_not_be_null", {"column": "amount"}),
    ("critical", "expect_column_values_to_be_unique", {"column": "id"}),
    ("critical", "expect_column_values_to_be_in_set", {"column": "origin", "value_set": ["EWR", "JFK", "LGA"]}),
    ("critical", "expect_column_values_to_match_regex", {"column": "code", "regex": "^[A-Z]{2}[0-9]{4}"}),
    ("critical", "expect_column_value_lengths_to_equal", {"column": "code", "value": 6}),
    ("warning", "expect_column_values_to_be_between", {"column": "speed", "min_value": 0, "max_value": 100}),
    ("warning", "expect_column_values_to_be_between", {"column": "hour", "min_value": 0, "max_value": 2398}),
    ("critical", "expect_column_values_to_be_between", {"column": "amount", "min_value": 0, "max_value": 1000}),
    ("critical", "expect_column_mean_to_be_between", {"column": "amount", "min_value": 400, "max_value": 600}),
    ("critical", "expect_column_max_to_be_between", {"column": "amount", "max_value": 1000}),
    (
        "critical",
        "expect_column_unique_value_count_to_be_between",
        {"column": "account", "min_value": 1, "max_value": 100_000},
    ),
]


def run() -> dict[str, Any]:
    """Seconds of the whole process, ours and theirs in turn; facts: memory, and whether the verdicts are equal."""
    seconds: dict[str, list[float]] = {}
    told: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as home:
        _child("stage", home)
        for _ in range(RUNS):
            for name, row in _NAMES.items():
                began = time.perf_counter()
                told[row] = _child(name, home)
                seconds.setdefault(row, []).append(time.perf_counter() - began)
    facts = {f"{row}: most memory": f"{one['peak_mb']} MB" for row, one in told.items()}
    verdicts = [one["verdicts"] for one in told.values() if "verdicts" in one]
    facts["the same verdicts and counts"] = str(all(one == verdicts[0] for one in verdicts))
    facts["set aside"] = f"{told[_NAMES['ours']]['aside']} of {ROWS} rows"
    return {"facts": facts, "seconds": seconds}


_NAMES = {
    "ours": "10 M rows, 18 checks, quarantine",
    "step": "the same, and the evidence kept and the others published",
    "gx": "Great Expectations' pandas engine, 18 checks",
}


def _child(name: str, home: str) -> dict[str, Any]:
    environment = {**os.environ, "LEEWAY_HOME": home, "LEEWAY_PROJECT": home, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.validation", name],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"error: {name} ended with {done.returncode}: {done.stderr[-2_000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _suite() -> dict[str, Any]:
    return {
        "expectations": [{"type": kind, "kwargs": kwargs, "severity": severity} for severity, kind, kwargs in CHECKS]
    }


def _stage() -> dict[str, Any]:
    """The table is in the lake, and the suite in expectations/."""
    import datetime as dt

    from pipelines.lake import Lake, connect

    with connect() as connection:
        batches = connection.sql(TABLE.format(rows=ROWS)).to_arrow_reader(100_000)
        Lake.open().write_partition("flights_raw", dt.date.fromisoformat(DAY), batches)
    write_suite(Path(os.environ["LEEWAY_PROJECT"]))
    return {}


def write_suite(project: Path) -> None:
    """The project's suite of flights has the checks."""
    folder = project / "expectations"
    folder.mkdir()
    (folder / "flights.json").write_text(json.dumps(_suite()))


def _ours() -> dict[str, Any]:
    import datetime as dt

    from pipelines.lake import Lake
    from pipelines.validation import quarantine, suites

    lake, day = Lake.open(), dt.date.fromisoformat(DAY)
    with suites.rows_of(lake, "flights_raw", day, "flights") as rows:
        judgement = suites.judge(suites.parse("bench", _suite(), "bench"), rows)
        parts = quarantine.split(rows, judgement.to_quarantine)
        quarantine.put(lake, "bench_quarantine", day, parts, ["id"])
    return {"verdicts": [in_short(one.success, one.result) for one in judgement.verdicts], "aside": parts.count}


def _step() -> dict[str, Any]:
    import datetime as dt

    from pipelines.steps import validate

    told = validate.run(validate.ValidateSpec(partition=dt.date.fromisoformat(DAY)))
    return {"rows": told.rows}


def _gx() -> dict[str, Any]:
    import pyarrow.parquet as pq

    (path,) = Path(os.environ["LEEWAY_HOME"]).glob("lake/**/flights_raw/data/**/*.parquet")
    return {"verdicts": verdicts_of_gx(pq.ParquetFile(path).read().to_pandas())}


def verdicts_of_gx(frame: Any) -> list[list[Any]]:
    """What Great Expectations says of a data frame, as its documentation does it: an ephemeral context, SUMMARY."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("bench").add_dataframe_asset("bench")
    batch = asset.add_batch_definition_whole_dataframe("bench").get_batch({"dataframe": frame})
    marked = [one | {"meta": {"place": place}} for place, one in enumerate(_suite()["expectations"])]
    suite = gx.ExpectationSuite(name="bench", expectations=marked)
    found = batch.validate(suite, result_format="SUMMARY").to_json_dict()["results"]
    ordered = sorted(found, key=lambda one: one["expectation_config"]["meta"]["place"])
    return [in_short(one["success"], one["result"]) for one in ordered]


def in_short(success: bool, result: dict[str, Any]) -> list[Any]:
    """A verdict, to be compared with another's of the same expectation."""
    seen = result.get("observed_value")
    return [bool(success), result.get("unexpected_count"), round(seen, 6) if isinstance(seen, float) else seen]


if __name__ == "__main__":
    answer = {"stage": _stage, "ours": _ours, "step": _step, "gx": _gx}[sys.argv[1]]()
    answer["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(answer))
