"""Test the share of its time that a training reads, for a script that reads all rows before it trains."""

import json
import time

import pytest

from pipelines.container.data_wait import DataWait
from pipelines.costs.job_records import DATA_WAIT


class Clock:
    """A clock that advances only when a test calls it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)

    def run(self, wait: DataWait, read_s: float, train_s: float) -> None:
        """Let a training read, and train."""
        self.now_s += read_s
        wait.end_reading()
        self.now_s += train_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return a clock."""
    return Clock(monkeypatch)


@pytest.mark.parametrize(("read_s", "train_s", "share"), [(1, 3, 0.25), (0, 3, 0.0), (2, 0, 1.0), (0, 0, 0.0)])
def test_share_is_the_reading_of_the_whole(clock: Clock, read_s: float, train_s: float, share: float) -> None:
    wait = DataWait()
    clock.run(wait, read_s, train_s)
    assert wait.share == share


def test_resumed_training_has_read_twice(clock: Clock) -> None:
    killed = DataWait()
    clock.run(killed, 1, 5)
    state = json.loads(json.dumps(killed.state_dict()))
    clock.now_s += 100  # the time until the restart is not a time of the training
    resumed = DataWait()
    clock.now_s += 1
    resumed.end_reading()
    resumed.load_state_dict(state)
    clock.now_s += 3
    assert resumed.share == pytest.approx(2 / 10)
    # A checkpoint of an older script has no seconds.
    other = DataWait()
    other.load_state_dict({})
    clock.run(other, 1, 1)
    assert other.share == 0.5


def test_report_is_what_the_ledger_reads(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    wait = DataWait()
    clock.run(wait, 1, 2)
    assert wait.report() == {"data_wait_share": 0.333}
    match = DATA_WAIT.fullmatch(capsys.readouterr().out.strip())
    assert match is not None and match[1] == "0.333"
