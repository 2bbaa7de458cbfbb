"""Test the step `record_tuning` without MLflow. test_tuning.py tests it with MLflow and real trials."""

from typing import Any

import pytest

from pipelines.errors import SpecError
from pipelines.steps.record_tuning import RecordTuningSpec, run

TRIALS: list[dict[str, Any]] = [
    {"name": "t-001", "state": "complete", "objective": 0.5, "hyperparameters": {"eta": 0.1, "booster": "dart"}},
    {"name": "t-002", "state": "stopped", "hyperparameters": {"eta": 0.2, "booster": "dart"}},
    {"name": "t-003", "state": "failed", "hyperparameters": {"eta": 9.0, "booster": "dart"}, "reason": "eta is 9"},
]


def parse(**fields: Any) -> RecordTuningSpec:
    """Parse a spec."""
    defaults = {"tuning_job": "t", "strategy": "random", "trials": TRIALS, "best": "t-001"}
    return RecordTuningSpec.parse({**defaults, **fields}, "record_tuning")


def test_record_has_the_winner_and_counts_all_trials(home: Any) -> None:
    result = run(parse(metric="logloss", folds_spread=[0.4, 0.6]))
    assert result.record.model_dump() == {
        "name": "t",
        "trials": 3,
        "strategy": "random",
        "metric": "logloss",
        "objective": 0.5,
        "folds_spread": [0.4, 0.6],
        "hyperparameters": {"eta": 0.1, "booster": "dart"},
    }
    assert result.run_id == "", "MLflow is not set"


@pytest.mark.parametrize("best", ["t-002", "other"])
def test_trial_without_an_objective_cannot_be_the_best(best: str) -> None:
    with pytest.raises(SpecError, match=f"no trial with an objective has the name {best}"):
        parse(best=best)


def test_tuning_without_a_trial_is_refused() -> None:
    with pytest.raises(SpecError, match="trials"):
        parse(trials=[])
