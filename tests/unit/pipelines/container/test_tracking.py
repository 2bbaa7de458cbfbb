"""Test the files of a training's record, also when MLflow fails."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.container.tracking import Tracker, _MlflowRun


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


class DeadClient:
    """A client of MLflow whose server has died."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        def fail(*_: object) -> None:
            self.requests.append(name)
            raise ConnectionError("refused")

        return fail


def test_an_mlflow_that_dies_gives_one_line_and_the_files_have_all_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    client, tracker = DeadClient(), Tracker(tmp_path, "job", "experiment")
    tracker._mlflow = _MlflowRun(client, "run", lambda *values, **_: values)
    for number in range(3):
        tracker.add_round(number, {"train-logloss": 0.7})
        tracker.flush()
    tracker.finish({"wall_s": 1.0})
    assert client.requests == ["get_metric_history"], "after the first error, no request delays the training"
    assert capsys.readouterr().err.count("MLflow failed (ConnectionError)") == 1
    assert len((tmp_path / "rounds.csv").read_text().split()) == 4
    assert (tmp_path / "resources.json").exists()
