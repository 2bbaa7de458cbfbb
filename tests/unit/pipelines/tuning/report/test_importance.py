"""Test the importance of the hyperparameters: it has the values of Optuna's own evaluator."""

import random
from typing import Any

import optuna
import pytest
from optuna.trial import create_trial

from pipelines.tuning.distributions import build_distributions
from pipelines.tuning.plan import PlanSpec
from pipelines.tuning.report.importance import estimate_importance
from pipelines.tuning.report.results import TrialResult, TuningResult

SPACE: dict[str, Any] = {
    "eta": {"low": 0.01, "high": 1.0, "log": True},
    "depth": {"low": 2, "high": 9, "type": "int"},
    "booster": ["gbtree", "dart", "linear"],
}


def make_result(count: int, compute: Any) -> TuningResult:
    """Return a tuning with random trials, whose objective is a function of the values."""
    generator, plan = random.Random(1), PlanSpec(space=SPACE, strategy="random", seed=3)
    trials = []
    for number in range(count):
        values = {
            "eta": generator.uniform(0.01, 1.0),
            "depth": generator.randint(2, 9),
            "booster": generator.choice(SPACE["booster"]),
        }
        trials.append(TrialResult(number, "complete", compute(values), {}, 1.0, values, [], "loss", ""))
    return TuningResult("t", plan, trials, trials[0])


def compute_loss(values: dict[str, Any]) -> float:
    """Return an objective to which each hyperparameter contributes."""
    return float(values["eta"] + 0.1 * values["depth"] + 0.5 * (values["booster"] == "dart"))


@pytest.mark.parametrize("count", [4, 40])
def test_importance_is_that_of_optuna(count: int) -> None:
    result = make_result(count, compute_loss)
    study = optuna.create_study()
    distributions = build_distributions(result.plan.space)
    for trial in result.trials:
        study.add_trial(create_trial(params=trial.parameters, value=trial.objective, distributions=distributions))
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=result.plan.seed)
    expected = optuna.importance.get_param_importances(study, evaluator=evaluator, params=list(SPACE))
    importance = estimate_importance(result)
    assert importance == pytest.approx(expected, rel=1e-9) and list(importance) == list(expected)
    # With another objective, other hyperparameters are important.
    assert next(iter(estimate_importance(make_result(40, lambda values: values["depth"])))) == "depth"


def test_without_differences_there_is_no_importance() -> None:
    assert estimate_importance(make_result(3, compute_loss)) == {}
    assert estimate_importance(make_result(9, lambda values: 1.0)) == {}
