"""Test that a training that is killed or stopped in an epoch gets exactly the samples that are left, and its memory."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.pipelines.container.torch.conftest import REASON, write_rows

pytest.importorskip("torch", reason=REASON)


ROOT = Path(__file__).parents[5]
SCRIPT = Path(__file__).with_name("reading_script.py")
COUNT = 3_001
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}


class Reading:
    """Starts the script again and again over one channel and one file with the position."""

    def __init__(self, folder):
        self.channel = write_rows(folder / "train", 1_000, 1, 2_000)
        self.state = folder / "state.json"

    def start(self, processes, workers, steps=0):
        """Start the script, which takes `steps` steps and then waits for more; 0: it reads the whole epoch."""
        arguments = (str(self.channel), str(self.state), str(processes), str(workers))
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *arguments],
            env=ENV,
            start_new_session=True,
            stdin=subprocess.PIPE if steps else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        if steps:
            process.stdin.write(b"s" * steps)
            process.stdin.flush()
        return process

    @property
    def ids(self):
        return json.loads(self.state.read_text())["ids"] if self.state.exists() else []


@pytest.fixture
def reading(tmp_path):
    return Reading(tmp_path)


def wait_for_samples(reading, process, count, until):
    until(lambda: len(reading.ids) >= count or process.poll() is not None)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_killed_training_gets_exactly_the_samples_that_are_left(reading, until, seed):
    """Each start has other numbers of processes and workers; kill -9 comes at any moment."""
    generator = random.Random(seed)
    for processes, workers in ((2, 1), (3, 0), (1, 2)):
        before = len(reading.ids)
        process = reading.start(processes, workers, steps=60)  # of 4 samples for each of the processes
        wait_for_samples(reading, process, before + generator.randrange(1, 200 * processes), until)
        workers_of_it = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert before < len(reading.ids) < COUNT
        until(lambda children=workers_of_it: not any(is_running(child) for child in children))
    process = reading.start(4, 0)
    assert process.wait() == 0, process.stderr.read()
    assert sorted(reading.ids) == list(range(COUNT))


def is_running(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_same_numbers_resume_with_the_same_batches_as_without_a_kill(reading, until, tmp_path):
    whole = Reading(tmp_path / "whole")
    assert whole.start(2, 1).wait() == 0
    process = reading.start(2, 1, steps=30)
    wait_for_samples(reading, process, 200, until)
    process.kill()
    process.wait()
    assert len(reading.ids) < COUNT
    assert reading.start(2, 1).wait() == 0
    assert reading.ids == whole.ids


def test_stop_of_all_processes_of_the_job_ends_after_a_step(reading, until):
    """A stop reaches the workers, too: they must not end before the training has saved its position."""
    process = reading.start(1, 2, steps=25)
    wait_for_samples(reading, process, 100, until)
    os.killpg(process.pid, signal.SIGTERM)
    errors = process.communicate(b"s")[1]  # one step more
    assert (process.returncode, errors) == (143, b"")
    assert len(reading.ids) == 104
    assert reading.start(2, 0).wait() == 0
    assert sorted(reading.ids) == list(range(COUNT))


MEASURED = """
import resource, sys
from pathlib import Path
from pipelines.container.torch.loader import Loader
from pipelines.container.torch.parquet_rows import ParquetRows
source = ParquetRows(Path(sys.argv[1]), {"x": [f"x{n}" for n in range(8)]})
count = sum(len(batch["x"]) for batch in Loader(source, 500, buffer=20_000, workers=int(sys.argv[2])))
assert count == sum(source.sizes)
who = resource.RUSAGE_CHILDREN if int(sys.argv[2]) else resource.RUSAGE_SELF
print(resource.getrusage(who).ru_maxrss / 1024)
"""


def measure_peak_mib(folder, workers):
    command = [sys.executable, "-c", MEASURED, str(folder), str(workers)]
    return float(subprocess.run(command, env=ENV, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("workers", [0, 1])
def test_memory_does_not_grow_with_the_file(tmp_path, workers):
    """The larger file has 244 MiB more; a reader has a buffer of 20,000 rows, and batches ahead."""
    values = {f"x{number}": np.random.default_rng(number).random(100_000) for number in range(8)}
    table, sizes_mib = pa.table(values), []
    for name, repeats in (("small", 1), ("large", 41)):
        (tmp_path / name).mkdir()
        with pq.ParquetWriter(tmp_path / name / "a.parquet", table.schema, compression="none") as writer:
            for _ in range(repeats):
                writer.write_table(table, row_group_size=10_000)
        sizes_mib.append((tmp_path / name / "a.parquet").stat().st_size / 2**20)
    grown_mib = sizes_mib[1] - sizes_mib[0]
    assert grown_mib > 240
    assert measure_peak_mib(tmp_path / "large", workers) - measure_peak_mib(tmp_path / "small", workers) < grown_mib / 6
