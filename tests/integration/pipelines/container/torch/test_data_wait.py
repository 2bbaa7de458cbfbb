"""Test the share of its time that a training waits for data."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.pipelines.container.torch.conftest import REASON

pytest.importorskip("torch", reason=REASON)

from pipelines.container.torch import data_wait
from pipelines.container.torch.data_wait import MEASUREMENT_INTERVAL, DataWait
from pipelines.container.torch.loader import Loader
from pipelines.container.torch.shards import Shards
from pipelines.container.torch.write_shards import write_shards
from pipelines.container.tracking import Tracker
from pipelines.costs.job_records import DATA_WAIT

ROOT = Path(__file__).parents[5]


class Clock:
    """A clock that advances only when the test calls it; and an accelerator with a queue of work."""

    def __init__(self, monkeypatch):
        self.now_s = self.queued_s = 0.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now_s)

    def load(self, count, seconds):
        for number in range(count):
            self.now_s += seconds
            yield number

    def synchronize(self):
        self.now_s += self.queued_s
        self.queued_s = 0.0


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def train(clock, wait, count, load_s, step_s):
    for _ in wait.watch(clock.load(count, load_s)):
        clock.now_s += step_s


def test_reading_before_the_first_batch_counts_as_the_steps_do(clock):
    wait, accelerated_wait = DataWait(), DataWait(clock.synchronize)
    for each in (wait, accelerated_wait):
        each.add_reading(32.0)
        train(clock, each, MEASUREMENT_INTERVAL * 2, 1.0, 3.0)
        assert each.share == pytest.approx(64 / 160)


@pytest.mark.parametrize(
    ("load_s", "step_s", "share"), [(0.0, 1.0, 0.0), (1.0, 0.0, 1.0), (1.0, 3.0, 0.25), (0.0, 0.0, 0.0)]
)
def test_share_is_the_wait_of_the_whole(clock, load_s, step_s, share):
    wait = DataWait()
    assert wait.share == 0
    train(clock, wait, 10, load_s, step_s)
    assert wait.share == pytest.approx(share)


def test_intervals_have_shares_of_their_own(clock):
    wait, shares = DataWait(), []
    for load_s in (1.0, 0.0, 3.0):
        train(clock, wait, 4, load_s, 1.0)
        shares.append(wait.compute_interval_share())
    assert shares == pytest.approx([0.5, 0.0, 0.75])
    assert wait.share == pytest.approx(16 / 28)


def test_share_of_a_resumed_training_is_that_of_the_whole(clock):
    wait = DataWait()
    train(clock, wait, 4, 1.0, 1.0)
    resumed = DataWait()
    resumed.add_reading(4.0)
    resumed.load_state_dict(json.loads(json.dumps(wait.state_dict())))
    train(clock, resumed, 4, 0.0, 1.0)
    assert resumed.share == pytest.approx(8 / 16), "the wait before the checkpoint was read counts, too"
    assert resumed.compute_interval_share() == pytest.approx(4 / 8)


def test_loop_that_is_left_closes_the_loader(clock):
    is_closed = []

    def load():
        try:
            yield from range(10)
        finally:
            is_closed.append(True)

    for _ in DataWait().watch(load()):
        break
    assert is_closed == [True]


def test_work_in_the_queue_of_an_accelerator_counts_as_step(clock):
    """The script continues at once, and the accelerator works for 3 s; then a batch takes 1 s."""

    def train_on_accelerator(wait):
        for _ in wait.watch(clock.load(3 * MEASUREMENT_INTERVAL, 1.0)):
            clock.queued_s += 3.0
        return wait.share

    assert train_on_accelerator(DataWait(clock.synchronize)) == pytest.approx(0.25)
    assert train_on_accelerator(DataWait()) == 1.0, "what the script alone would say"


def test_share_tells_a_slow_loader_from_a_slow_step(tmp_path):
    """Measured, with real batches of a worker: one of both works ten times as long as the other."""
    write_shards(tmp_path, ({"cls": number} for number in range(60)))

    def measure(load_s, step_s):
        def decode(sample):
            time.sleep(load_s / 4)
            return {"x": sample["cls"]}

        wait = DataWait()
        for _ in wait.watch(Loader(Shards(tmp_path, decode), 4, workers=1)):
            time.sleep(step_s)
        return wait.share

    slow_step, slow_loader = measure(0.005, 0.05), measure(0.05, 0.005)
    assert slow_step < 0.5 < slow_loader


def test_report_is_in_the_record_and_is_what_the_ledger_reads(clock, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    wait, tracker = DataWait(), Tracker(tmp_path, "job", "experiment")
    train(clock, wait, 4, 1.0, 2.0)
    tracker.add_round(0, {"loss": 1.0, data_wait.METRIC: wait.compute_interval_share()})
    tracker.finish(wait.report())
    assert DATA_WAIT.fullmatch(capsys.readouterr().out.strip())[1] == "0.333"
    assert json.loads((tmp_path / "resources.json").read_text())["data_wait_share"] == 0.333
    assert (tmp_path / "rounds.csv").read_text().splitlines()[0] == "round,loss,data_wait_share"
    DataWait().report(1.0)
    assert DATA_WAIT.search(capsys.readouterr().out)[1] == "1.000"


FIND_SHARE = """
import sys, torch
from pipelines.container.torch.data_wait import DataWait
rank, address = int(sys.argv[1]), f"tcp://127.0.0.1:{sys.argv[2]}"
torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
wait = DataWait()
wait.load_state_dict({"waited_s": 0.5 * rank, "total_s": 1.0})
print(wait.share, wait.find_largest_share())
torch.distributed.destroy_process_group()
"""


def test_largest_share_of_all_processes_is_found(free_port):
    port, env = str(free_port()), {**os.environ, "PYTHONPATH": str(ROOT)}
    commands = [[sys.executable, "-c", FIND_SHARE, str(rank), port] for rank in range(2)]
    processes = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for command in commands]
    assert [process.communicate()[0].split() for process in processes] == [["0.0", "0.5"], ["0.5", "0.5"]]
    assert DataWait().find_largest_share() == 0, "without a group, that of this process"
