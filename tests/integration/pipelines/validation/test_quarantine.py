"""Test that validate quarantines bad rows with their reasons and publishes the others."""

import datetime as dt
import json
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import ValidationError
from pipelines.lake import Lake, history
from pipelines.steps import validate
from pipelines.validation import results_table

DAY = dt.date(2013, 5, 3)
N = 40
BETWEEN = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "speed", "max_value": 100}}
UNIQUE = {"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["carrier", "flight"]}}
DATES = {
    "type": "expect_column_values_to_match_strftime_format",
    "kwargs": {"column": "text", "strftime_format": "%Y-%m-%d"},
}
HALF_NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "speed", "mostly": 0.5}}

ValidateRows = Callable[..., validate.ValidateResult]


def create_rows(number: int = N, **changes: dict[int, Any]) -> pa.Table:
    """Return rows of a day. `changes` has for each column the values to set, by row number."""
    values: dict[str, list[Any]] = {
        "date": [DAY] * number,
        "carrier": ["AA"] * number,
        "flight": list(range(number)),
        "origin": ["JFK"] * number,
        "speed": [float(n) for n in range(number)],
        "text": ["2013-05-03"] * number,
        "late": [True] * number,
    }
    for name, cells in changes.items():
        for row, value in cells.items():
            values[name][row] = value
    types = {"date": pa.date32(), "flight": pa.int32(), "speed": pa.float64()}
    return pa.table({name: pa.array(column, types.get(name)) for name, column in values.items()})


def create_warnings(*expectations: dict[str, Any]) -> list[dict[str, Any]]:
    return [expectation | {"severity": "warning"} for expectation in expectations]


@pytest.fixture
def validate_rows(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> ValidateRows:
    """Return the function that stages rows, if there are any, and validates the day by some expectations."""
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()

    def stage_and_validate(
        rows: pa.Table | None, expectations: list[dict[str, Any]], **fields: Any
    ) -> validate.ValidateResult:
        (tmp_path / "expectations").mkdir(exist_ok=True)
        (tmp_path / "expectations/flights.json").write_text(json.dumps({"expectations": expectations}))
        if rows is not None:
            Lake.open().write_partition("flights_raw", DAY, rows)
        return validate.run(validate.ValidateSpec(partition=DAY, **{"dataset": "flights", **fields}))

    return stage_and_validate


def read_quarantine() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = Lake.open().read_partition("flights_quarantine", DAY).to_pylist()
    return rows


def read_published() -> pa.Table:
    return Lake.open().read_partition("flights", DAY)


def test_bad_rows_are_quarantined_with_all_reasons_and_the_others_are_published(validate_rows: ValidateRows) -> None:
    rows = create_rows(speed={3: 1048.0, 7: 500.0}, flight={8: 7})
    result = validate_rows(rows, create_warnings(BETWEEN, UNIQUE))
    assert (result.rows, result.quarantined, len(result.warnings)) == (37, 3, 2)
    assert read_published()["flight"].to_pylist() == [n for n in range(N) if n not in (3, 7, 8)]
    quarantine = read_quarantine()
    assert [row["flight"] for row in quarantine] == [3, 7, 7]
    assert quarantine[0] == rows.slice(3, 1).to_pylist()[0] | {
        "quarantine": [{"expectation": BETWEEN["type"], "column": "speed", "value": "1048.0"}]
    }
    assert [reason["column"] for reason in quarantine[1]["quarantine"]] == ["speed", "carrier, flight"]
    assert quarantine[2]["quarantine"] == [
        {"expectation": UNIQUE["type"], "column": "carrier, flight", "value": "AA, 7"}
    ]


def test_a_second_validation_changes_nothing_and_a_corrected_day_empties_the_quarantine(
    validate_rows: ValidateRows,
) -> None:
    first = validate_rows(create_rows(speed={3: 1048.0}), create_warnings(BETWEEN))
    repeat = validate_rows(None, create_warnings(BETWEEN))
    assert (repeat.changed, repeat.snapshot_id, repeat.quarantined) == (False, first.snapshot_id, 1)
    correction = validate_rows(create_rows(), create_warnings(BETWEEN))
    assert (correction.changed, correction.rows, correction.quarantined, read_quarantine()) == (True, N, 0, [])


@pytest.mark.parametrize(
    ("expectation", "speed"),
    [
        (BETWEEN | {"severity": "info"}, {1: 500.0}),
        (BETWEEN | {"severity": "warning", "kwargs": BETWEEN["kwargs"] | {"mostly": 0.9}}, {1: 500.0}),
        ({"type": "expect_column_max_to_be_between", "kwargs": BETWEEN["kwargs"], "severity": "warning"}, {1: 500.0}),
    ],
    ids=["info", "mostly allows the row", "a warning about the table"],
)
def test_an_expectation_that_rejects_no_row_quarantines_nothing(
    expectation: dict[str, Any], speed: dict[int, Any], validate_rows: ValidateRows
) -> None:
    result = validate_rows(create_rows(speed=speed), [expectation])
    assert (result.rows, result.quarantined) == (N, 0)
    assert Lake.open().count_rows_by_day("flights_quarantine") == {}


def test_a_critical_failure_blocks_the_day_and_quarantines_nothing(validate_rows: ValidateRows) -> None:
    with pytest.raises(ValidationError, match="critical"):
        validate_rows(create_rows(speed={1: 500.0}), [BETWEEN, *create_warnings(BETWEEN)])
    assert Lake.open().count_rows_by_day("flights") == Lake.open().count_rows_by_day("flights_quarantine") == {}


def test_too_many_bad_rows_block_the_day(validate_rows: ValidateRows) -> None:
    first = validate_rows(create_rows(speed=dict.fromkeys(range(4), 500.0)), create_warnings(BETWEEN))
    assert first.quarantined == 4, "10 % of the rows may be quarantined"
    with pytest.raises(ValidationError, match=r"5 of 40 rows are bad, more than the 10% of max_quarantined_fraction"):
        validate_rows(create_rows(speed=dict.fromkeys(range(5), 500.0)), create_warnings(BETWEEN))
    assert read_published().num_rows == 36, "the rows that were published before are unchanged"
    assert len(read_quarantine()) == 4
    with pytest.raises(ValidationError, match=r"more than the 0.4% of max_quarantined_fraction"):
        validate_rows(None, create_warnings(BETWEEN), max_quarantined_fraction=0.004)
    assert validate_rows(None, create_warnings(BETWEEN), max_quarantined_fraction=0.2).quarantined == 5
    with pytest.raises(ValidationError, match="40 of 40"):
        validate_rows(
            create_rows(speed=dict.fromkeys(range(N), 500.0)), create_warnings(BETWEEN), max_quarantined_fraction=1.0
        )


def test_rows_that_great_expectations_rejects_are_quarantined(validate_rows: ValidateRows) -> None:
    result = validate_rows(
        create_rows(text={2: "yesterday", 5: None, 39: "2013-02-30"}), create_warnings(DATES, BETWEEN)
    )
    assert (result.rows, result.quarantined) == (38, 2)
    assert [(row["flight"], row["quarantine"][0]["value"]) for row in read_quarantine()] == [
        (2, "yesterday"),
        (39, "2013-02-30"),
    ]


def test_null_values_are_quarantined_only_by_an_expectation_about_nulls(validate_rows: ValidateRows) -> None:
    strict = HALF_NOT_NULL | {"kwargs": {"column": "speed"}}
    assert validate_rows(create_rows(speed={1: None}), create_warnings(HALF_NOT_NULL)).quarantined == 0
    assert validate_rows(None, create_warnings(strict)).quarantined == 1
    assert read_quarantine()[0]["quarantine"][0]["value"] == "null"


def test_an_added_column_is_in_the_published_and_the_quarantined_rows(validate_rows: ValidateRows) -> None:
    validate_rows(create_rows(speed={1: 500.0}), create_warnings(BETWEEN))
    validate_rows(create_rows(speed={1: 500.0}).append_column("gate", [["B7"] * N]), create_warnings(BETWEEN))
    assert set(read_published()["gate"].to_pylist()) == {"B7"}
    assert read_quarantine()[0]["gate"] == "B7"


@pytest.mark.parametrize("failed_write", ["quarantine", "publish"])
def test_a_validation_that_ended_between_its_commits_can_be_repeated(
    failed_write: str, validate_rows: ValidateRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    validate_rows(create_rows(), create_warnings(BETWEEN))
    table = {"quarantine": "flights_quarantine", "publish": "flights"}[failed_write]
    write = Lake.write_partition

    def write_or_fail(self: Lake, name: str, *arguments: Any) -> Any:
        if name == table:
            raise KeyboardInterrupt
        return write(self, name, *arguments)

    monkeypatch.setattr(Lake, "write_partition", write_or_fail)
    with pytest.raises(KeyboardInterrupt):
        validate_rows(create_rows(speed={3: 1048.0}), create_warnings(BETWEEN))
    assert read_published().num_rows == N, "no partial day is published"
    monkeypatch.setattr(Lake, "write_partition", write)
    assert validate_rows(None, create_warnings(BETWEEN)).quarantined == 1
    assert (read_published().num_rows, len(read_quarantine())) == (39, 1)


def test_evidence_has_one_row_for_each_expectation_of_each_run(validate_rows: ValidateRows) -> None:
    validate_rows(create_rows(), create_warnings(BETWEEN, HALF_NOT_NULL))
    validate_rows(create_rows(speed={3: 1048.0}), create_warnings(BETWEEN, HALF_NOT_NULL))
    with pytest.raises(ValidationError):
        validate_rows(None, [BETWEEN])
    table = (
        Lake.open()
        .read_partition(results_table.TABLE, DAY)
        .sort_by([("validated_at", "ascending"), ("place", "ascending")])
    )
    rows = table.to_pylist()
    completeness = [True, True]  # the two expectations of every suite
    assert [row["success"] for row in rows] == [
        *(True, True, *completeness),
        *(False, True, *completeness),
        *(False, *completeness),
    ]
    assert len({row["run"] for row in rows}) == 3
    assert len({row["suite_digest"] for row in rows}) == 2
    failure = rows[4]
    assert (failure["dataset"], failure["severity"], failure["unexpected_count"]) == ("flights", "warning", 1)
    assert json.loads(failure["examples"]) == ["1048.0"]
    assert json.loads(failure["result"])["result"]["partial_unexpected_list"] == [1048.0]
    last_evidence = json.loads(results_table.get_evidence_path("flights", DAY).read_text())
    assert (last_evidence["statistics"]["unsuccessful_expectations"], last_evidence["meta"]["partition"]) == (
        1,
        str(DAY),
    )


def add_evidence(number: int) -> None:
    """Add three rows of evidence of a day."""
    day = DAY + dt.timedelta(number)
    rows = [{"date": day, "dataset": "flights", "place": place} for place in range(3)]
    results_table.ResultsTable(Lake.open()).add(rows, day)


def test_concurrent_validations_lose_no_evidence(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("fork")) as pool:
        list(pool.map(add_evidence, range(16)))
    monkeypatch.setattr(history, "MAX_SNAPSHOTS", 10)
    add_evidence(16)
    evidence_table = Lake.open().catalog.load_table(("leeway", results_table.TABLE))
    assert len(evidence_table.snapshots()) == 1, "the older snapshots were removed"
    assert Lake.open().count_rows_by_day(results_table.TABLE) == {DAY + dt.timedelta(number): 3 for number in range(17)}


def test_snapshots_that_another_process_removed_are_no_failure(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        add_evidence(number)
    monkeypatch.setattr(history, "MAX_SNAPSHOTS", 1)
    first, second = (Lake.open().catalog.load_table(("leeway", results_table.TABLE)) for _ in range(2))
    history.expire_old_snapshots(second)
    history.expire_old_snapshots(first)
    assert len(Lake.open().catalog.load_table(("leeway", results_table.TABLE)).snapshots()) == 1
