"""Measure the validation of 10 M rows x 10 columns by 18 checks with quarantine; compare with Great Expectations.

Each measured variant runs in its own process. Seconds and peak memory are those of the whole process, imports included.
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
from unittest import mock

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
        ("critical", "expect_column_values_to_not_be_null", {"column": name})
        for name in ("date", "id", "account", "origin", "at")
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
    """Measure the variants alternately.

    Returns:
        "seconds" by name of the row; "facts": peak memory, quarantined rows, and whether both engines gave the same
        result for each check (see `summarize_verdict`).
    """
    seconds: dict[str, list[float]] = {}
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as home:
        _run_child("stage", home)
        for _ in range(RUNS):
            for variant, row in _ROW_BY_VARIANT.items():
                start_s = time.perf_counter()
                results[row] = _run_child(variant, home)
                seconds.setdefault(row, []).append(time.perf_counter() - start_s)
    facts = {f"{row}: peak memory": f"{result['peak_mb']} MB" for row, result in results.items()}
    verdicts = [result["verdicts"] for result in results.values() if "verdicts" in result]
    facts["the same verdicts and counts"] = str(all(item == verdicts[0] for item in verdicts))
    facts["quarantined"] = f"{results[_ROW_BY_VARIANT['leeway']]['quarantined']} of {ROWS} rows"
    return {"facts": facts, "seconds": seconds}


_ROW_BY_VARIANT = {
    "leeway": "10 M rows, 18 checks, quarantine",
    "step": "the same, with the evidence written and good rows published",
    "gx": "Great Expectations' pandas engine, 18 checks",
}


def _run_child(variant: str, home: str) -> dict[str, Any]:
    environment = {**os.environ, "LEEWAY_HOME": home, "LEEWAY_PROJECT": home, "PYTHONPATH": str(PROJECT)}
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.validation", variant],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise SystemExit(f"error: {variant} ended with exit code {process.returncode}: {process.stderr[-2_000:]}")
    result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return result


def _build_suite() -> dict[str, Any]:
    return {
        "expectations": [
            {"type": expectation_type, "kwargs": kwargs, "severity": severity}
            for severity, expectation_type, kwargs in CHECKS
        ]
    }


def _stage_rows() -> dict[str, Any]:
    """Write the table to the lake, and the suite to expectations/."""
    import datetime as dt

    from pipelines.lake import Lake, connect

    with connect() as connection:
        batches = connection.sql(TABLE.format(rows=ROWS)).to_arrow_reader(100_000)
        Lake.open().write_partition("flights_raw", dt.date.fromisoformat(DAY), batches)
    write_suite(Path(os.environ["LEEWAY_PROJECT"]))
    return {}


def write_suite(project: Path) -> None:
    """Write the checks as the project's suite of flights."""
    folder = project / "expectations"
    folder.mkdir()
    (folder / "flights.json").write_text(json.dumps(_build_suite()))


def _run_leeway() -> dict[str, Any]:
    import datetime as dt

    from pipelines.lake import Lake
    from pipelines.validation import quarantine, suites

    lake, day = Lake.open(), dt.date.fromisoformat(DAY)
    with suites.open_rows(lake, "flights_raw", day, "flights") as rows:
        judgement = suites.judge(suites.parse_suite("bench", _build_suite(), "bench"), rows)
        split = quarantine.split_rows(rows, judgement.rejecting_results)
        quarantine.write_quarantine(lake, "bench_quarantine", day, split, ["id"])
    return {
        "verdicts": [summarize_verdict(result.success, result.result) for result in judgement.results],
        "quarantined": split.bad_count,
    }


def _run_step() -> dict[str, Any]:
    return {"rows": validate_day().rows}


def validate_day() -> Any:
    """Run the step `validate` on the rows, which have neither the key nor the label of flights. Return its result."""
    import datetime as dt

    from pipelines.dataset import Dataset
    from pipelines.steps import validate

    with mock.patch.object(validate, "load_dataset", lambda name: Dataset(name=name, key=("id",))):
        return validate.run(validate.ValidateSpec(dataset="flights", partition=dt.date.fromisoformat(DAY)))


def _run_gx() -> dict[str, Any]:
    import pyarrow.parquet as pq

    (path,) = Path(os.environ["LEEWAY_HOME"]).glob("lake/**/flights_raw/data/**/*.parquet")
    return {"verdicts": validate_with_gx(pq.ParquetFile(path).read().to_pandas())}


def validate_with_gx(frame: Any) -> list[list[Any]]:
    """Validate a data frame with Great Expectations as its documentation does: ephemeral context, SUMMARY results."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("bench").add_dataframe_asset("bench")
    batch = asset.add_batch_definition_whole_dataframe("bench").get_batch({"dataframe": frame})
    items = enumerate(_build_suite()["expectations"])
    expectations = [item | {"meta": {"position": position}} for position, item in items]
    suite = gx.ExpectationSuite(name="bench", expectations=expectations)
    results = batch.validate(suite, result_format="SUMMARY").to_json_dict()["results"]
    sorted_results = sorted(results, key=lambda item: item["expectation_config"]["meta"]["position"])
    return [summarize_verdict(item["success"], item["result"]) for item in sorted_results]


def summarize_verdict(success: bool, result: dict[str, Any]) -> list[Any]:
    """Return what can be compared between engines: success, count of unexpected rows, and rounded observed value."""
    observed_value = result.get("observed_value")
    return [
        bool(success),
        result.get("unexpected_count"),
        round(observed_value, 6) if isinstance(observed_value, float) else observed_value,
    ]


if __name__ == "__main__":
    output = {"stage": _stage_rows, "leeway": _run_leeway, "step": _run_step, "gx": _run_gx}[sys.argv[1]]()
    output["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(output))
