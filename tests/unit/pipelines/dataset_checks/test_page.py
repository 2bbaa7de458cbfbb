"""Test the question of `leeway check` about the policy of the gate."""

from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.dataset_checks import page
from pipelines.datasets.flights import DATASET


@pytest.mark.parametrize(
    ("metric", "outcome"), [("mae", "yes"), ("pinball/0.1", "yes"), ("mea", "no"), ("auc", "no"), ("recall/x", "no")]
)
def test_a_metric_that_the_task_does_not_have_is_a_no(metric: str, outcome: str) -> None:
    dataset = replace(DATASET, task="regression")
    sections = {"gate": {"policy": {"bounds": {metric: {"at_most": 1.0}}}}}
    answer = page._answer("?", page._check_gate, page.Subject("delays", dataset, Path(), sections))
    assert answer.outcome == outcome
    if outcome == "no":
        assert f"the gate's policy names the metric {metric!r}" in answer.text
        assert "They have rmse, mae, median_ae, r2, bias" in answer.text
