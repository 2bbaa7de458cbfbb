"""Test that a task whose two engines judge the same rows differently fails without a retry, and logs both answers."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.operators.validate import ValidateOperator

from pipelines.lake import Lake

pytestmark = pytest.mark.soak

DAY = "2013-01-01"
STEP = """#!{python}
import sys
from pipelines.cli import app
from pipelines.validation.evaluators import arguments, duckdb_expectations
from pipelines.validation.evaluators.checks import RowCheck

def find_no_missing_values(args, rows):
    return RowCheck([args.column], "TRUE", "TRUE", args.mostly, is_about_missing=True)

if {is_wrong}:
    evaluator = (arguments.ValueArguments, find_no_missing_values)
    duckdb_expectations.DUCKDB_EXPECTATIONS["expect_column_values_to_not_be_null"] = evaluator
sys.argv = sys.argv[3:]
app.main()
"""
"""The step's command line. Its evaluator of missing values calls every value missing, if `is_wrong`."""


@pytest.mark.parametrize("is_wrong", [True, False])
def test_a_difference_is_not_retried(
    is_wrong: bool, home: Path, tmp_path: Path, day_rows: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = day_rows(DAY)
    Lake.open().write_partition("flights_raw", rows["date"][0].as_py(), rows)
    python = tmp_path / "python"
    python.write_text(STEP.format(python=sys.executable, is_wrong=is_wrong))
    python.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    operator = ValidateOperator(
        task_id="validate", dataset="flights", partition=DAY, verify_share=1, python=str(python), retries=3
    )
    if not is_wrong:  # the negative control
        assert operator.execute({})["verified"]
        return
    with pytest.raises(AirflowFailException) as error:
        operator.execute({})
    answers = "DuckDB fails (842 of 842 rows", "Great Expectations holds (0 of 842 rows"
    assert all(answer in str(error.value) for answer in answers), str(error.value)
    assert Lake.open().count_rows_by_day("flights") == {}
