"""Test the two engines of the step validate: what each judges, and what happens where they differ."""

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import DataError, EnginesDifferError, ValidationError
from pipelines.lake import Lake
from pipelines.steps import backfill, validate
from pipelines.validation import verification
from pipelines.validation.evaluators import arguments, duckdb_expectations, row_checks
from pipelines.validation.evaluators.checks import RowCheck
from pipelines.validation.evaluators.rows import Rows
from pipelines.validation.verification import is_drawn

DAY = dt.date(2013, 1, 1)
NOT_NULL = "expect_column_values_to_not_be_null"
Stage = Callable[..., None]


@pytest.fixture
def stage(home: Path, day_rows: Callable[[str], pa.Table]) -> Stage:
    """Return the function that stages a real day, with a value in a column of its first rows."""

    def stage_day(column: str = "", value: Any = None, number: int = 3) -> None:
        rows = day_rows(str(DAY))
        if column:
            position = rows.schema.get_field_index(column)
            values = [value] * number + rows[column].to_pylist()[number:]
            rows = rows.set_column(
                position, rows.schema.field(position), pa.array(values, rows.schema.field(position).type)
            )
        Lake.open().write_partition("flights_raw", DAY, rows)

    return stage_day


@pytest.fixture
def wrong_evaluator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make DuckDB's evaluator of missing values wrong: it misses all of them."""

    def make_wrong_check(args: arguments.ValueArguments, rows: Rows) -> RowCheck:
        return RowCheck([args.column], "TRUE", "FALSE", args.mostly, is_about_missing=True)

    evaluator = (arguments.ValueArguments, make_wrong_check)
    monkeypatch.setitem(duckdb_expectations.DUCKDB_EXPECTATIONS, NOT_NULL, evaluator)


def run(engine: str = "duckdb", verify_share: float = 0.0) -> validate.ValidateResult:
    return validate.run(
        validate.ValidateSpec(dataset="flights", partition=DAY, engine=engine, verify_share=verify_share)
    )


def read_evidence(home: Path) -> dict[str, Any]:
    evidence: dict[str, Any] = json.loads((home / f"validation/flights/{DAY}.json").read_text())
    return evidence


def test_great_expectations_judges_the_whole_suite_with_the_same_result(stage: Stage, home: Path) -> None:
    stage("weather_temp", 500.0, 9)
    gx_result = run("gx")
    gx_evidence, bad_rows = read_evidence(home), Lake.open().read_partition("flights_quarantine", DAY).to_pylist()
    assert (gx_result.rows, gx_result.quarantined, gx_result.engine) == (842 - 9, 9, "gx")
    duckdb_result = run("duckdb")
    assert not duckdb_result.changed, "the same rows are published"
    names = ("rows", "quarantined", "evaluated", "warnings", "columns")
    assert gx_result.model_dump(include=set(names)) == duckdb_result.model_dump(include=set(names))
    assert Lake.open().read_partition("flights_quarantine", DAY).to_pylist() == bad_rows
    engines = {result["expectation_config"]["type"]: result["meta"]["engine"] for result in gx_evidence["results"]}
    assert {kind for kind, engine in engines.items() if engine == "duckdb"} <= set(
        duckdb_expectations.ADDED_EXPECTATIONS
    )
    assert set(engines.values()) == {"gx", "duckdb"}, "Great Expectations lacks Leeway's own expectations"
    assert gx_evidence["meta"]["engine"] == "gx"
    assert {result["meta"]["engine"] for result in read_evidence(home)["results"]} == {"duckdb"}
    assert "Judged by DuckDB" in (home / f"docs/flights/{DAY}.html").read_text()


def test_great_expectations_blocks_a_day(stage: Stage) -> None:
    stage("origin", "ZZZ", 1)
    for engine in ("gx", "duckdb"):
        with pytest.raises(ValidationError, match=r"critical expectation.* of origin: 1 of 842 rows .* e\.g\. ZZZ"):
            run(engine)
    assert Lake.open().count_rows_by_day("flights") == {}


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("gx", marks=pytest.mark.soak)])
def test_a_drawn_day_that_both_judge_alike_is_published(engine: str, stage: Stage, home: Path) -> None:
    stage("weather_temp", 500.0, 9)
    result = run(engine, 1)
    assert result.verified and result.rows == 842 - 9
    comparison = read_evidence(home)["meta"]["verification"]
    assert comparison["differences"] == [] and comparison["compared"] > 20
    assert "by both" in (home / f"docs/flights/{DAY}.html").read_text()
    assert not run(engine, 0).verified
    assert "verification" not in read_evidence(home)["meta"]


@pytest.mark.usefixtures("wrong_evaluator")
def test_a_difference_fails_the_day_with_both_answers_and_publishes_nothing(stage: Stage, home: Path) -> None:
    stage("carrier", None, 2)
    with pytest.raises(EnginesDifferError) as error:
        run("duckdb", 1)
    answers = f"{NOT_NULL} of carrier (success): DuckDB holds (0 of 842 rows); Great Expectations fails (2 of 842 rows"
    assert answers in str(error.value)
    assert error.value.exit_code == 2
    assert Lake.open().count_rows_by_day("flights") == {}
    evidence = read_evidence(home)
    assert evidence["meta"]["verdict"] == "blocked"
    (difference,) = (
        difference
        for difference in evidence["meta"]["verification"]["differences"]
        if difference["gx"]["expectation_config"]["kwargs"]["column"] == "carrier"
    )
    assert (difference["duckdb"]["success"], difference["gx"]["success"]) == (True, False)
    page = (home / f"docs/flights/{DAY}.html").read_text()
    assert "judge these rows differently" in page and "DuckDB: holds" in page
    with pytest.raises(ValidationError, match="2 of 842"):
        run("gx", 0)


def test_a_backfill_publishes_the_other_days_and_its_error_has_both_answers(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    def make_check(args: arguments.ValueArguments, rows: Rows) -> RowCheck:
        unexpected_sql = "TRUE" if rows.partition == DAY else "FALSE"
        return RowCheck([args.column], "TRUE", unexpected_sql, args.mostly, is_about_missing=True)

    evaluator = (arguments.ValueArguments, make_check)
    monkeypatch.setitem(duckdb_expectations.DUCKDB_EXPECTATIONS, NOT_NULL, evaluator)
    (tmp_path / "expectations").mkdir()
    expectation = {"type": NOT_NULL, "kwargs": {"column": "carrier"}}
    (tmp_path / "expectations/flights.json").write_text(json.dumps({"expectations": [expectation]}))
    (tmp_path / "params.yaml").write_text("validate: {verify_share: 1}\n")
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    with pytest.raises(DataError, match=r"^1 of 2 partitions were not published: 2013-01-01: ") as error:
        backfill.run(backfill.BackfillSpec(dataset="flights", first=DAY, last=DAY + dt.timedelta(1)))
    answers = "DuckDB fails (842 of 842 rows", "Great Expectations holds (0 of 842 rows"
    assert all(answer in str(error.value) for answer in answers), str(error.value)
    assert Lake.open().count_rows_by_day("flights") == {DAY + dt.timedelta(1): 943}


@pytest.mark.usefixtures("wrong_evaluator")
def test_a_day_that_is_not_drawn_is_judged_by_one_engine(stage: Stage) -> None:
    stage("carrier", None, 2)
    share = 0.02
    assert not is_drawn("flights", DAY, share)
    assert not run("duckdb", share).verified


def test_other_rows_with_equal_counts_are_a_difference(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage("weather_temp", 500.0, 9)

    def make_other_rows(args: arguments.ValueRange, rows: Rows) -> RowCheck | None:
        check = row_checks.make_range_check(args, rows)
        if check is None or args.column != "weather_temp":
            return check
        rows.add_positions()
        return RowCheck(check.columns, check.judged_sql, '(r."leeway position" BETWEEN 20 AND 28)', check.mostly)

    kind = "expect_column_values_to_be_between"
    monkeypatch.setitem(duckdb_expectations.DUCKDB_EXPECTATIONS, kind, (arguments.ValueRange, make_other_rows))
    with pytest.raises(EnginesDifferError, match=r"of weather_temp \(unexpected rows\)"):
        run("duckdb", 1)


def test_a_large_day_is_not_verified(stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(verification, "MAX_ROWS", 841)
    stage()
    assert not run("duckdb", 1).verified
    monkeypatch.setattr(verification, "MAX_ROWS", 842)
    assert run("duckdb", 1).verified


def test_the_share_of_drawn_days_is_the_one_that_was_asked_for_and_always_the_same_days() -> None:
    days = [dt.date(2013, 1, 1) + dt.timedelta(number) for number in range(10_000)]
    for share, fewest, most in ((0.0, 0, 0), (0.02, 150, 250), (0.5, 4800, 5200), (1.0, 10_000, 10_000)):
        drawn = [day for day in days if is_drawn("flights", day, share)]
        assert fewest <= len(drawn) <= most
        assert drawn == [day for day in days if is_drawn("flights", day, share)]
    few_days = {day for day in days if is_drawn("flights", day, 0.02)}
    assert few_days <= {day for day in days if is_drawn("flights", day, 0.1)}, "a larger share has all of a smaller one"
    assert few_days != {day for day in days if is_drawn("weather", day, 0.02)}


@pytest.mark.usefixtures("wrong_evaluator")
def test_the_command_ends_with_one_line_and_a_code_that_airflow_does_not_retry(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pipelines.cli import app

    stage("carrier", None, 2)
    monkeypatch.setattr(
        "sys.argv", ["pipelines", "validate", "--dataset", "flights", "--partition", str(DAY), "--verify-share", "1"]
    )
    with pytest.raises(SystemExit) as end:
        app.main()
    errors = [line for line in capsys.readouterr().err.splitlines() if not line.startswith(("INFO", "WARNING"))]
    assert end.value.code == 2
    assert errors[-1].startswith("error: flights 2013-01-01 was not published: DuckDB and Great Expectations")
    assert not any("Traceback" in line for line in errors)
