"""Test that the work which interruptions undo counts once: in the prediction on spot, not in what past jobs took."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from pipelines.planning.checkpoints import estimate_interrupted_run
from pipelines.planning.recommendation.choice.choose import choose
from pipelines.planning.recommendation.history import list_observations
from pipelines.planning.recommendation.inputs import PlanInputs, build_request
from pipelines.planning.recommendation.limits import Limits
from pipelines.planning.recommendation.measured import build_measured_workload
from pipelines.planning.recommendation.past_jobs import compute_work_s
from pipelines.planning.recommendation.recommend import CHECKPOINT_S, RESTART_S, SAVE_S, recommend
from pipelines.steps.choose_instance import ChooseInstanceSpec
from tests.tools.ledger_rows import make_row

NOW = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)
RUN = estimate_interrupted_run(36_000, CHECKPOINT_S, SAVE_S, 7_200, RESTART_S)
WORK_S = RUN.work_s + RUN.saving_s
INTERRUPTED = {
    "training_s": RUN.total_s,
    "interruptions": RUN.interruptions,
    "lost_s": RUN.lost_s,
    "resumes": RUN.interruptions,
    "cold_starts": 0,
    **{"spot": True, "saving": 0.7, "cpu_mean": 700, "memory_peak": 5},
}
"""A spot job of ten hours with an interruption every two hours, as the formula expects it."""


@pytest.fixture(autouse=True)
def prices(home: Path) -> None:
    """Use the prices of the package."""


def make_rows(**fields: Any) -> list[dict[str, Any]]:
    return [make_row(number, **{**INTERRUPTED, **fields}) for number in range(8)]


def test_a_training_like_interrupted_ones_is_predicted_to_take_as_long_as_they_did() -> None:
    assert RUN.total_s > 1.1 * WORK_S
    request = build_request(
        PlanInputs(["us-east-1"], past_jobs_of="flights", allow=["ml.m5.2xlarge"]), Limits(), make_rows()
    )
    options = {option.market: option for option in recommend(request).options}
    assert options["spot"].seconds == pytest.approx(RUN.total_s)
    assert options["spot"].cost_usd == pytest.approx(make_rows()[0]["cost_usd"])
    assert options["on demand"].seconds == pytest.approx(WORK_S), "nothing interrupts it on demand"


def test_the_prediction_that_is_learned_from_is_that_of_the_work() -> None:
    spec = {"instance_types": ["ml.m5.2xlarge"], "region": "us-east-1", "model": "flights"}
    choice = choose(ChooseInstanceSpec.parse(spec, "test"), make_rows(), NOW)
    assert (choice.predicted_s, choice.uncorrected_s) == (pytest.approx(RUN.total_s), pytest.approx(WORK_S))
    planned = make_row(20, **INTERRUPTED, uncorrected_s=choice.uncorrected_s, prediction_basis="measured")
    assert list_observations([planned])[0].log_ratio == pytest.approx(0, abs=1e-6)


def test_a_job_that_was_interrupted_more_often_than_others_teaches_nothing_about_the_time() -> None:
    rows = [make_row(number, training_s=3_600) for number in range(4)]
    unlucky = make_row(9, training_s=9_000, spot=True, interruptions=3, lost_s=5_400.0, resumes=2, cold_starts=1)
    assert list_observations([*rows, unlucky])[-1].log_ratio == 0
    assert build_measured_workload([*rows, unlucky], "flights").spread == 1


@pytest.mark.parametrize(
    ("fields", "work_s"),
    [
        ({"interruptions": 0, "lost_s": 0.0}, 4_000),
        ({"interruptions": 1, "lost_s": 400.0, "resumes": 1, "cold_starts": 0}, 3_600),
        ({"interruptions": 2, "lost_s": 400.0, "resumes": 1, "cold_starts": 1}, 3_600),
        # The log was not read, or the script does not report what it restores: all work so far counts as lost.
        ({"interruptions": 2, "lost_s": 3_000.0, "resumes": 1, "cold_starts": 0}, 4_000),
        ({"interruptions": 1, "lost_s": 3_000.0, "resumes": None, "cold_starts": None}, 4_000),
        ({"interruptions": 1, "lost_s": 3_000.0}, 4_000),
        ({"interruptions": 1, "lost_s": None, "resumes": 1, "cold_starts": 0}, 4_000),
        ({"interruptions": 1, "lost_s": 4_000.0, "resumes": 1, "cold_starts": 0}, 4_000),
    ],
)
def test_lost_work_is_subtracted_where_it_is_known(fields: dict[str, Any], work_s: float) -> None:
    assert compute_work_s(make_row(training_s=4_000, spot=True, **fields)) == work_s
