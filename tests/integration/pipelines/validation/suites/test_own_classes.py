"""Test suites with classes of expectations that the project itself defines, in Python files of expectations/."""

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import DataError, ValidationError
from pipelines.lake import Lake
from pipelines.steps import validate

DAY = "2013-01-01"
CLASSES = '''
import great_expectations.expectations as gxe
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import ColumnMapExpectation
from great_expectations.expectations.metrics import ColumnMapMetricProvider, column_condition_partial


class ExpectShortFlight(gxe.ExpectColumnValuesToBeBetween):
    """A class of Great Expectations with other defaults."""

    column: str = "distance"
    max_value: float = 10_000


class OwnEven(ColumnMapMetricProvider):
    condition_metric_name = "column_values.own_even"

    @column_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column, **kwargs):
        return column % 2 == 0


class ExpectColumnValuesToBeEvenHere(ColumnMapExpectation):
    map_metric = "column_values.own_even"


class ExpectOwnRows(gxe.ExpectTableRowCountToBeBetween):
    """It reads all columns, and cannot name rows."""

    def _validate(self, metrics, runtime_configuration=None, execution_engine=None):
        frame = execution_engine.batch_manager.active_batch_data.dataframe
        return {"success": bool((frame["origin"] != "ZZZ").all()), "result": {"observed_value": len(frame)}}


class ExpectTrouble(gxe.ExpectTableRowCountToBeBetween):
    def _validate(self, metrics, runtime_configuration=None, execution_engine=None):
        raise RuntimeError("no luck today")
'''
Run = Callable[..., validate.ValidateResult]


@pytest.fixture
def run(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fresh_settings: Callable[[], None],
    day_rows: Callable[[str], pa.Table],
) -> Run:
    """Return the function that stages a real day, and validates it by one expectation of a project."""
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    (tmp_path / "expectations").mkdir()

    def validate_day(kind: str, classes: str = CLASSES, severity: str = "critical", **kwargs: Any) -> Any:
        Lake.open().write_partition("flights_raw", dt.date.fromisoformat(DAY), day_rows(DAY))
        (tmp_path / "expectations/classes.py").write_text(classes)
        expectations = [{"type": kind, "kwargs": kwargs, "severity": severity}]
        (tmp_path / "expectations/flights.json").write_text(json.dumps({"expectations": expectations}))
        return validate.run(validate.ValidateSpec(dataset="flights", partition=DAY, max_quarantined_fraction=0.9))

    return validate_day


def test_a_class_with_other_defaults_judges(run: Run) -> None:
    assert run("expect_short_flight").rows == 842
    with pytest.raises(ValidationError, match=r"expect_short_flight.* of 842 rows"):
        run("expect_short_flight", max_value=300)


def test_rows_that_a_class_with_its_own_metric_rejects_are_quarantined(run: Run, day_rows: Any) -> None:
    odd = sum(number % 2 for number in day_rows(DAY)["flight"].to_pylist())
    result = run("expect_column_values_to_be_even_here", severity="warning", column="flight")
    assert (result.quarantined, result.rows) == (odd, 842 - odd)
    result = run("expect_column_values_to_be_even_here", severity="warning", column="flight", mostly=0.01)
    assert result.quarantined == 0, "it holds for enough rows"


def test_a_class_that_names_no_rows_is_only_reported_as_a_warning(run: Run) -> None:
    assert run("expect_own_rows").rows == 842
    failing_classes = CLASSES.replace('!= "ZZZ"', '!= "EWR"')
    with pytest.raises(ValidationError, match=r"expect_own_rows: 842"):
        run("expect_own_rows", failing_classes)
    result = run("expect_own_rows", failing_classes, "warning")
    assert (result.rows, result.quarantined, len(result.warnings)) == (842, 0, 1)


def test_an_error_of_a_class_fails_its_expectation_and_is_reported(run: Run) -> None:
    with pytest.raises(ValidationError, match=r"expect_trouble: no luck today"):
        run("expect_trouble")


REFUSED = {
    "an unknown type": ("expect_luck", CLASSES, r"flights\.json, expectation 1: neither .* class for expect_luck"),
    "an error of Python": (
        "expect_short_flight",
        "x = 1\ny = x / 0\n",
        r"classes\.py .* line 2: division",
    ),
    "a syntax error": ("expect_short_flight", "class :\n", r"expectations/classes\.py .*SyntaxError in line 1"),
    "a missing package": ("expect_short_flight", "import nowhere_at_all", r"classes\.py .*line 1: No module named"),
    "an end of the process": ("expect_short_flight", "raise SystemExit(0)", r"classes\.py .*SystemExit in line 1"),
    "a name of Great Expectations": (
        "expect_short_flight",
        CLASSES + "\nclass ExpectColumnValuesToBeUnique(gxe.ExpectColumnValuesToBeNull):\n    pass\n",
        r"classes\.py redefines expect_column_values_to_be_unique",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_suite_whose_class_cannot_be_had_is_refused(case: str, run: Run) -> None:
    kind, classes, message = REFUSED[case]
    with pytest.raises(DataError, match=message) as error:
        run(kind, classes)
    assert error.value.exit_code == 2
    assert Lake.open().count_rows_by_day("flights") == {}


def test_a_class_can_read_a_file_beside_its_own(run: Run) -> None:
    classes = f"from pathlib import Path\nASSUMPTIONS = Path(__file__).with_name('flights.json').read_text()\n{CLASSES}"
    assert run("expect_short_flight", classes).rows == 842


def test_a_wrong_kwarg_of_a_class_is_refused(run: Run) -> None:
    with pytest.raises(DataError, match=r"expectation 1 is not valid: .*maxx"):
        run("expect_short_flight", maxx=1)


def test_files_are_not_loaded_for_the_types_of_great_expectations(run: Run) -> None:
    assert run("expect_column_values_to_be_increasing", "raise SystemExit", "info", column="flight").rows == 842
