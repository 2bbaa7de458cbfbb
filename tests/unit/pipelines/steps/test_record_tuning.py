"""Test the step `record_tuning` without MLflow. test_tuning.py tests it with MLflow and real trials."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import SpecError
from pipelines.steps.record_tuning import RecordTuningSpec, _write_report, run
from pipelines.tuning.winner import read_winner

TRIALS: list[dict[str, Any]] = [
    {"name": "t-001", "state": "complete", "objective": 0.5, "hyperparameters": {"eta": 0.1, "booster": "dart"}},
    {
        "name": "t-002",
        "state": "stopped",
        "objective": 0.1,  # of fewer rounds, so it cannot win
        "hyperparameters": {"eta": 0.2, "booster": "dart"},
        "rounds": {"1": 0.9, "7": 0.8},  # as JSON has them
    },
    {"name": "t-003", "state": "failed", "hyperparameters": {"eta": 9.0, "booster": "dart"}, "reason": "eta is 9"},
]
PLAN = {
    "strategy": "random",
    "space": {"eta": {"low": 0.01, "high": 1.0, "log": True}, "booster": ["dart", "gbtree"]},
}


def parse(**fields: Any) -> RecordTuningSpec:
    """Parse a spec."""
    defaults = {"tuning_job": "t", "plan": PLAN, "trials": TRIALS, "best": "t-001"}
    return RecordTuningSpec.parse({**defaults, **fields}, "record_tuning")


def test_record_has_the_winner_and_counts_all_trials(home: Any) -> None:
    result = run(parse(metric="logloss", fold_losses=[0.4, 0.6]))
    assert result.record.model_dump() == {
        "name": "t",
        "trials": 3,
        "earlier_trials": 0,
        "stopped": 1,
        "strategy": "random",
        "metric": "logloss",
        "objective": 0.5,
        "fold_losses": [0.4, 0.6],
        "hyperparameters": {"eta": 0.1, "booster": "dart"},
    }
    assert result.run_id == "", "MLflow is not set"


def test_trials_of_a_warm_start_are_in_the_record_and_the_report(tmp_path: Path, home: Any) -> None:
    spec = parse(earlier_trials=100)
    assert run(spec).record.earlier_trials == 100
    _write_report(tmp_path, spec)
    page = (tmp_path / "report.html").read_text()
    assert page.count(", after a warm start from 100 earlier ones") == 2 and read_winner(tmp_path).earlier_trials == 100


def test_report_shows_all_trials_with_costs_and_importance(tmp_path: Path, home: Any) -> None:
    values = [(0.1, "dart", 0.5), (0.2, "dart", 0.4), (0.3, "gbtree", 0.3), (0.4, "gbtree", 0.2), (0.5, "dart", 0.6)]
    completed: list[dict[str, Any]] = [
        {
            "name": f"t-1{number}",
            "state": "complete",
            "objective": objective,
            "hyperparameters": {"eta": eta, "booster": booster},
            "cost_usd": 0.01,
            "seconds": 60,
        }
        for number, (eta, booster, objective) in enumerate(values)
    ]
    spec = parse(trials=[*TRIALS, *completed], best="t-13", metric="logloss", fold_losses=[0.1, 0.3])
    _write_report(tmp_path, spec)
    assert read_winner(tmp_path) == run(spec).record, "`tune apply` gets what the operator's training gets"
    page = (tmp_path / "report.html").read_text()
    assert "8</b><span>trials: 6 complete, 0 pruned, 1 stopped by a limit or a person, 1 failed" in page
    assert "eta is 9" in page
    assert "<td>eta 0.4, booster gbtree</td>" in page
    assert "300 s</b><span>of all trials; 0.05 USD" in page
    pictures = {"history.png", "rounds.png", "parallel.png", "importance.png"}
    assert {path.name for path in tmp_path.glob("*.png")} == pictures
    lines = (tmp_path / "trials.csv").read_text().splitlines()
    assert len(lines) == 9 and lines[2].startswith("1,stopped,,7,7,0.0,stopped by a limit or a person after round 7")


def test_report_without_losses_by_round_has_no_chart_of_them(tmp_path: Path) -> None:
    _write_report(tmp_path, parse(trials=[TRIALS[0], {**TRIALS[1], "rounds": {}}]))
    assert not (tmp_path / "rounds.png").exists() and "Losses by round" not in (tmp_path / "report.html").read_text()
    assert ",stopped,,0,,0.0,," in (tmp_path / "trials.csv").read_text()


@pytest.mark.parametrize("best", ["t-002", "other"])
def test_trial_that_is_not_complete_cannot_be_the_best(best: str) -> None:
    with pytest.raises(SpecError, match=f"no complete trial with an objective has the name {best}"):
        parse(best=best)


def test_tuning_without_a_trial_is_refused() -> None:
    with pytest.raises(SpecError, match="trials"):
        parse(trials=[])
