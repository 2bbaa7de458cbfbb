"""Test the states of a partition."""

import datetime as dt
import json

import pytest

from pipelines.status.data_documents import judge_partition
from pipelines.status.validations import Failure, Validation
from pipelines.validation.results_table import get_evidence_path

DAY = dt.date(2013, 1, 2)


def make_validation(*severities):
    failures = [Failure("expect_x", "a", severity, "3 bad") for severity in severities]
    return Validation("flights", DAY, "run", dt.datetime(2013, 1, 3, tzinfo=dt.UTC), failures)


@pytest.mark.parametrize(
    ("rows", "quarantined", "validation", "state"),
    [
        (9, 0, None, "not_validated"),
        (9, 0, make_validation(), "published"),
        (9, 0, make_validation("info"), "published"),
        (9, 2, make_validation("warning"), "quarantined"),
        (9, 0, make_validation("critical"), "stale"),
        (0, 0, make_validation("critical"), "refused"),
        (0, 5, None, "refused"),
    ],
)
def test_state_of_a_partition(home, rows, quarantined, validation, state):
    assert judge_partition(rows, quarantined, validation) == state


@pytest.mark.parametrize(
    ("run", "verdict", "state"),
    [("run", "blocked", "stale"), ("run", "warned", "published"), ("x", "blocked", "published")],
)
def test_evidence_tells_whether_warnings_refused_a_partition(home, run, verdict, state):
    path = get_evidence_path("flights", DAY)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"meta": {"run": run, "verdict": verdict}}))
    assert judge_partition(9, 0, make_validation("warning")) == state


def test_a_failure_is_described_in_a_line():
    assert str(Failure("expect_x", "a", "warning", "3 bad")) == "warning expect_x of a: 3 bad"
    assert str(Failure("expect_y", "", "critical", "0 rows")) == "critical expect_y: 0 rows"
