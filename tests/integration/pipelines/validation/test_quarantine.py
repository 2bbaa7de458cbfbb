"""Bad rows are quarantined with their reasons, and the others published."""

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
ROUGH = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "speed", "mostly": 0.5}}

Judge = Callable[..., validate.ValidateResult]


def table(number: int = N, **changed: dict[int, Any]) -> pa.Table:
    values: dict[str, list[Any]] = {
        "date": [DAY] * number,
        "carrier": ["AA"] * number,
        "flight": list(range(number)),
        "origin": ["JFK"] * number,
        "speed": [float(one) for one in range(number)],
        "text": ["2013-05-03"] * number,
    }
    for name, places in changed.items():
        for place, value in places.items():
            values[name][place] = value
    types = {"date": pa.date32(), "flight": pa.int32(), "speed": pa.float64()}
    return pa.table({name: pa.array(found, types.get(name)) for name, found in values.items()})


def warning(*expectations: dict[str, Any]) -> list[dict[str, Any]]:
    return [one | {"severity": "warning"} for one in expectations]


@pytest.fixture
def judge(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> Judge:
    """Stages rows and validates them by some expectations."""
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()

    def judged(rows: pa.Table | None, expectations: list[dict[str, Any]], **fields: Any) -> validate.ValidateResult:
        (tmp_path / "expectations").mkdir(exist_ok=True)
        (tmp_path / "expectations/flights.json").write_text(json.dumps({"expectations": expectations}))
        if rows is not None:
            Lake.open().write_partition("flights_raw", DAY, rows)
        return validate.run(validate.ValidateSpec(partition=DAY, **fields))

    return judged


def aside() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = Lake.open().read_partition("flights_quarantine", DAY).to_pylist()
    return rows


def published() -> pa.Table:
    return Lake.open().read_partition("flights", DAY)


def test_bad_rows_go_with_every_reason_and_the_others_are_published_in_order(judge: Judge) -> None:
    rows = table(speed={3: 1048.0, 7: 500.0}, flight={8: 7})
    told = judge(rows, warning(BETWEEN, UNIQUE))
    assert (told.rows, told.quarantined, len(told.warnings)) == (37, 3, 2)
    assert published()["flight"].to_pylist() == [one for one in range(N) if one not in (3, 7, 8)]
    found = aside()
    assert [one["flight"] for one in found] == [3, 7, 7]
    assert found[0] == rows.slice(3, 1).to_pylist()[0] | {
        "quarantine": [{"expectation": BETWEEN["type"], "column": "speed", "value": "1048.0"}]
    }
    assert [one["column"] for one in found[1]["quarantine"]] == ["speed", "carrier, flight"]
    assert found[2]["quarantine"] == [{"expectation": UNIQUE["type"], "column": "carrier, flight", "value": "AA, 7"}]


def test_again_changes_nothing_and_a_mended_day_leaves_quarantine(judge: Judge) -> None:
    first = judge(table(speed={3: 1048.0}), warning(BETWEEN))
    again = judge(None, warning(BETWEEN))
    assert (again.changed, again.snapshot_id, again.quarantined) == (False, first.snapshot_id, 1)
    mended = judge(table(), warning(BETWEEN))
    assert (mended.changed, mended.rows, mended.quarantined, aside()) == (True, N, 0, [])


@pytest.mark.parametrize(
    ("expectation", "speed"),
    [
        (BETWEEN | {"severity": "info"}, {1: 500.0}),
        (BETWEEN | {"severity": "warning", "kwargs": BETWEEN["kwargs"] | {"mostly": 0.9}}, {1: 500.0}),
        ({"type": "expect_column_max_to_be_between", "kwargs": BETWEEN["kwargs"], "severity": "warning"}, {1: 500.0}),
    ],
    ids=["info", "within its mostly", "a warning about the table"],
)
def test_what_moves_nothing(expectation: dict[str, Any], speed: dict[int, Any], judge: Judge) -> None:
    told = judge(table(speed=speed), [expectation])
    assert (told.rows, told.quarantined) == (N, 0)
    assert Lake.open().count_rows_by_day("flights_quarantine") == {}


def test_a_critical_failure_blocks_and_sets_nothing_aside(judge: Judge) -> None:
    with pytest.raises(ValidationError, match="critical"):
        judge(table(speed={1: 500.0}), [BETWEEN, *warning(BETWEEN)])
    assert Lake.open().count_rows_by_day("flights") == Lake.open().count_rows_by_day("flights_quarantine") == {}


def test_too_many_bad_rows_block(judge: Judge) -> None:
    four = judge(table(speed=dict.fromkeys(range(4), 500.0)), warning(BETWEEN))
    assert four.quarantined == 4, "a tenth is not too many"
    with pytest.raises(ValidationError, match=r"5 of 40 rows are bad, more than the 10% of max_quarantined_fraction"):
        judge(table(speed=dict.fromkeys(range(5), 500.0)), warning(BETWEEN))
    assert published().num_rows == 36, "what was published stays"
    assert len(aside()) == 4
    assert judge(None, warning(BETWEEN), max_quarantined_fraction=0.2).quarantined == 5
    with pytest.raises(ValidationError, match="40 of 40"):
        judge(table(speed=dict.fromkeys(range(N), 500.0)), warning(BETWEEN), max_quarantined_fraction=1.0)


def test_rows_that_great_expectations_found_go_too(judge: Judge) -> None:
    told = judge(table(text={2: "yesterday", 5: None, 39: "2013-02-30"}), warning(DATES, BETWEEN))
    assert (told.rows, told.quarantined) == (38, 2)
    assert [(one["flight"], one["quarantine"][0]["value"]) for one in aside()] == [(2, "yesterday"), (39, "2013-02-30")]


def test_missing_values_go_by_their_own_expectation(judge: Judge) -> None:
    strict = ROUGH | {"kwargs": {"column": "speed"}}
    assert judge(table(speed={1: None}), warning(ROUGH)).quarantined == 0
    assert judge(None, warning(strict)).quarantined == 1
    assert aside()[0]["quarantine"][0]["value"] == "null"


def test_an_added_column_is_published_and_set_aside(judge: Judge) -> None:
    judge(table(speed={1: 500.0}), warning(BETWEEN))
    judge(table(speed={1: 500.0}).append_column("gate", [["B7"] * N]), warning(BETWEEN))
    assert set(published()["gate"].to_pylist()) == {"B7"}
    assert aside()[0]["gate"] == "B7"


@pytest.mark.parametrize("died_at", ["quarantine", "publish"])
def test_a_validation_that_died_between_its_commits_is_done_again(
    died_at: str, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(table(), warning(BETWEEN))
    victim = {"quarantine": "flights_quarantine", "publish": "flights"}[died_at]
    write = Lake.write_partition

    def dies(self: Lake, name: str, *rest: Any) -> Any:
        if name == victim:
            raise KeyboardInterrupt
        return write(self, name, *rest)

    monkeypatch.setattr(Lake, "write_partition", dies)
    with pytest.raises(KeyboardInterrupt):
        judge(table(speed={3: 1048.0}), warning(BETWEEN))
    assert published().num_rows == N, "nothing half-published"
    monkeypatch.setattr(Lake, "write_partition", write)
    assert judge(None, warning(BETWEEN)).quarantined == 1
    assert (published().num_rows, len(aside())) == (39, 1)


def test_evidence_has_a_row_an_expectation_and_keeps_its_history(judge: Judge) -> None:
    judge(table(), warning(BETWEEN, ROUGH))
    judge(table(speed={3: 1048.0}), warning(BETWEEN, ROUGH))
    with pytest.raises(ValidationError):
        judge(None, [BETWEEN])
    rows = (
        Lake.open()
        .read_partition(results_table.TABLE, DAY)
        .sort_by([("validated_at", "ascending"), ("place", "ascending")])
    )
    found = rows.to_pylist()
    assert [one["success"] for one in found] == [True, True, False, True, False]
    assert len({one["run"] for one in found}) == 3
    assert len({one["suite_digest"] for one in found}) == 2
    failed = found[2]
    assert (failed["dataset"], failed["severity"], failed["unexpected_count"]) == ("flights", "warning", 1)
    assert json.loads(failed["examples"]) == ["1048.0"]
    assert json.loads(failed["result"])["result"]["partial_unexpected_list"] == [1048.0]
    newest = json.loads(results_table.evidence_path("flights", DAY).read_text())
    assert (newest["statistics"]["unsuccessful_expectations"], newest["meta"]["partition"]) == (1, str(DAY))


def add(number: int) -> None:
    """In a process of its own."""
    day = DAY + dt.timedelta(number)
    rows = [{"date": day, "dataset": "flights", "place": place} for place in range(3)]
    results_table.Evidence(Lake.open()).add(rows, day)


def test_evidence_of_validations_at_once_is_all_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("fork")) as pool:
        list(pool.map(add, range(16)))
    monkeypatch.setattr(history, "MAX_SNAPSHOTS", 10)
    add(16)
    table = Lake.open().catalog.load_table(("leeway", results_table.TABLE))
    assert len(table.snapshots()) == 1, "the snapshots are forgotten"
    assert Lake.open().count_rows_by_day(results_table.TABLE) == {DAY + dt.timedelta(number): 3 for number in range(17)}


def test_what_another_process_forgot_first_is_no_failure(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        add(number)
    monkeypatch.setattr(history, "MAX_SNAPSHOTS", 1)
    ours, theirs = (Lake.open().catalog.load_table(("leeway", results_table.TABLE)) for _ in range(2))
    history.forget_snapshots(theirs)
    history.forget_snapshots(ours)
    assert len(Lake.open().catalog.load_table(("leeway", results_table.TABLE)).snapshots()) == 1
