"""Test the table and the page of a recommendation."""

import datetime as dt
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from pipelines.planning.recommendation.inputs import PlanInputs, build_request
from pipelines.planning.recommendation.limits import Limits
from pipelines.planning.recommendation.options import Recommendation
from pipelines.planning.recommendation.recommend import recommend
from pipelines.planning.recommendation.report import build_table, write_page
from tests.tools.ledger_rows import make_row

TODAY = dt.date(2026, 11, 28)


@pytest.fixture
def recommendation(home: Path) -> Recommendation:
    """Recommend from six jobs on spot of an hour, each of which waited for five minutes."""
    spot = {"spot": True, "saving": 0.7, "first_capacity_s": 300.0, "cpu_mean": 150, "memory_peak": 5}
    rows = [make_row(number, training_s=3_600, **spot) for number in range(6)]
    inputs = PlanInputs(["us-east-1"], past_jobs_of="flights", allow=["ml.m5.2xlarge"])
    return recommend(build_request(inputs, Limits(), rows))


def test_the_ends_of_the_band_contain_the_wait_as_the_time_does(recommendation: Recommendation, tmp_path: Path) -> None:
    output = io.StringIO()
    Console(file=output, width=200).print(build_table(recommendation, "title"))
    (line,) = [line for line in output.getvalue().splitlines() if " spot " in line]
    assert re.findall(r"([\d.]+) (min|h) ", line)[:3] == [("1.1", "h")] * 3
    page = write_page(tmp_path / "plan.html", recommendation, TODAY).read_text()
    assert "1.0 h to 1.0 h" in page, "the page has columns of their own for the time until the end and the training"
