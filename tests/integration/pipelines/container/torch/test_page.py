"""Test the script of the page "Feed accelerators with data": interrupted or not, it gives the same model."""

import io
import re
from pathlib import Path

import pytest

from tests.integration.pipelines.container.torch.conftest import REASON

pytest.importorskip("torch", reason=REASON)
import torch

from pipelines.container.checkpoints import Checkpoints
from pipelines.container.tracking import Tracker

PAGE = Path(__file__).parents[5] / "docs/how-to/feed-accelerators.md"
SCRIPT = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
FEATURES = ["x", "y"]


class Training:
    """What the page takes from the rest of the script: a model, its checkpoints and the record."""

    def __init__(self, folder):
        self.model = torch.nn.Linear(len(FEATURES), 1)
        torch.nn.init.zeros_(self.model.weight)
        torch.nn.init.zeros_(self.model.bias)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.checkpoints = Checkpoints(folder / "checkpoints", {}, every_s=0)
        self.tracker = Tracker(folder / "output", "job", "experiment")
        self.steps, self.stop_after = 0, None
        self.names = {}

    def train_step(self, x, y):
        if self.steps == self.stop_after:
            raise KeyboardInterrupt
        loss = ((self.model(x / 500).squeeze(1) - y / 500) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        buffer = io.BytesIO()
        torch.save(self.model.state_dict(), buffer)
        self.names |= {"step": self.steps, "payload": buffer.getvalue()}

    def run(self, stop_after=None):
        checkpoint = self.checkpoints.restore()
        if checkpoint:
            self.model.load_state_dict(torch.load(io.BytesIO(checkpoint.payload), weights_only=True))
            self.steps = checkpoint.step
        self.stop_after = stop_after
        self.names |= {
            **{"feature_names": FEATURES, "rank": 0, "processes": 1, "epochs": 3, "train_step": self.train_step},
            **{"checkpoint": checkpoint, "checkpoints": self.checkpoints, "tracker": self.tracker},
        }
        exec(SCRIPT.replace('"label"', '"id"').replace("batch_size=256", "batch_size=64"), self.names)
        return self.model.state_dict()


def test_interrupted_training_of_the_page_gives_the_same_model(rows, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SM_CHANNEL_TRAIN", str(rows))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for name in ("whole", "interrupted"):
        (tmp_path / name).mkdir()
    whole = Training(tmp_path / "whole").run()
    for stop_after in (5, 14):  # in the first and in the second epoch of 8 steps
        with pytest.raises(KeyboardInterrupt):
            Training(tmp_path / "interrupted").run(stop_after)
    training = Training(tmp_path / "interrupted")
    model = training.run()
    assert training.steps == 24
    assert all(torch.equal(model[name], values) for name, values in whole.items())
    assert whole["weight"].abs().sum() > 0, "the model has learned"
    assert len(re.findall(r"^data_wait_share=[01]\.\d{3};$", capsys.readouterr().out, re.MULTILINE)) == 2
