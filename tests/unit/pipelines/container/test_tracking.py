"""Test the files of a training's record."""

import csv
from pathlib import Path

import pytest

from pipelines.container.tracking import Tracker


def test_a_later_round_may_have_more_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    tracker = Tracker(tmp_path, "job", "experiment")
    tracker.add_round(0, {"train-logloss": 0.7})
    tracker.flush()
    tracker.add_round(1, {"train-logloss": 0.6, "validation-logloss": 0.65})
    tracker.flush()
    with (tmp_path / "rounds.csv").open(encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == [
            {"round": "0", "train-logloss": "0.7", "validation-logloss": ""},
            {"round": "1", "train-logloss": "0.6", "validation-logloss": "0.65"},
        ]
