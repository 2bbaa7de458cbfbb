"""Test how a request for a recommendation is built."""

from pathlib import Path

import pytest

from pipelines.planning.recommendation.inputs import PlanInputs, build_request
from pipelines.planning.recommendation.limits import Limits
from tests.tools.ledger_rows import make_row

REGION = "us-east-1"


@pytest.fixture(autouse=True)
def prices(home: Path) -> None:
    """Use the prices of the package."""


@pytest.mark.parametrize(
    ("allow", "types"),
    [
        (["ml.*"], set()),
        (["ml.t*"], set()),  # matches ml.t3, too
        (["ml.trn1.*"], {"ml.trn1.2xlarge", "ml.trn1.32xlarge"}),
        (["ml.g5.*", "ml.trn1.2xlarge"], {"ml.trn1.2xlarge"}),
        (["ml.*", "ml.trn1.2xlarge"], {"ml.trn1.2xlarge"}),
        (["ml.g5.*", "ml.[a-z]5.large", "ml.*5.4xlarge"], set()),
    ],
)
def test_trainium_is_possible_if_a_pattern_names_it_explicitly(allow: list[str], types: set[str]) -> None:
    inputs = PlanInputs([REGION], parameters=1e9, tokens=1e8, allow=allow)
    assert build_request(inputs, Limits(), []).neuron_types == types


def test_trainium_is_possible_if_past_jobs_ran_on_it() -> None:
    inputs = PlanInputs([REGION], like="flights", allow=["ml.*"])
    rows = [make_row(instance_type="ml.trn1.2xlarge")]
    assert "ml.trn1.32xlarge" in build_request(inputs, Limits(), rows).neuron_types
    assert not build_request(inputs, Limits(), [make_row()]).neuron_types
