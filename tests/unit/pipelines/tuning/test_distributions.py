"""Test the conversion of a space to Optuna's distributions."""

from typing import Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from pipelines.tuning.distributions import build_distributions
from pipelines.tuning.plan import PlanSpec

SPACE: dict[str, Any] = {
    "max_depth": {"low": 3, "high": 10, "type": "int"},
    "eta": {"low": 0.01, "high": 0.3, "log": True},
    "booster": ["gbtree", "dart"],
}


def test_optunas_distributions() -> None:
    assert build_distributions(PlanSpec(space=SPACE).space) == {
        "max_depth": IntDistribution(3, 10),
        "eta": FloatDistribution(0.01, 0.3, log=True),
        "booster": CategoricalDistribution(["gbtree", "dart"]),
    }
    (stepped,) = build_distributions(PlanSpec(space={"x": {"low": 0, "high": 1, "step": 0.5}}).space).values()
    assert stepped == FloatDistribution(0, 1, step=0.5)
