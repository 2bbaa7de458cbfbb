"""Run a training with torch on several hosts: a process each, with the variables that torchrun sets.

Between two runs, the checkpoints of all hosts are merged, and each host gets all of them, as SageMaker does by S3.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]
REASON = "torch is not installed: pip install 'leeway[torch]'"
"""Why tests are skipped without torch."""
SCRIPT = ROOT / "templates/torch/train.py"
HYPERPARAMETERS = {"epochs": 3, "batch_rows": 100, "hidden": "16,8", "embedding": 4, "checkpoint_s": 1_000}


def write_channels(folder: Path, task: str = "binary", rows: int = 2_000) -> Path:
    """Write the channels train and validation with a learnable label, and return their folder."""
    for name, count, seed in (("train", rows, 1), ("validation", rows // 4, 2)):
        generator = np.random.default_rng(seed)
        x, y = generator.normal(size=(2, count))
        kind = generator.choice(["a", "b", "c"], count)
        value = x + np.where(kind == "a", 1, -1) + generator.normal(size=count) / 2
        y[::17] = np.nan
        labels = {
            "binary": value > 0,
            "regression": 10 * value + 50,
            "multiclass": np.select([value > 1, value < -1], ["high", "low"], "middle"),
        }
        frame = pd.DataFrame({"x": x, "y": y, "kind": kind, "label": labels[task]})
        features = {"x": "number", "y": "number", "kind": "category"}
        description = {"dataset": "toy", "task": task, "features": features, "label": "label"}
        table = pa.Table.from_pandas(frame, preserve_index=False)
        (folder / name).mkdir(parents=True)
        table = table.replace_schema_metadata({b"leeway": json.dumps(description).encode()})
        pq.write_table(table, folder / name / "data.parquet")
    return folder


@dataclass
class TorchJob:
    """A training job on some hosts.

    Attributes:
        base: folder of the job, with a folder for each host.
        channels: folder of the channels.
        commands: starts processes, and ends them after the test.
        find_port: returns a free port.
        hyperparameters: those that differ from `HYPERPARAMETERS`.
        per_host: number of processes of each host.
    """

    base: Path
    channels: Path
    commands: Any
    find_port: Callable[[], int]
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    per_host: int = 1

    @property
    def first(self) -> Path:
        """Folder of the first host."""
        return self.base / "algo-1"

    def start(self, hosts: int = 2, **hyperparameters: Any) -> list[Any]:
        """Start the script on each host. Each has all checkpoints, and no other file of an earlier run."""
        port = self.find_port()
        self.copy_checkpoints([f"algo-{number + 1}" for number in range(hosts)])
        return [self.start_process(rank, hosts, port, hyperparameters) for rank in range(hosts * self.per_host)]

    def run(self, hosts: int = 2, **hyperparameters: Any) -> str:
        """Run the script to its end without an error; return the log of the first host."""
        logs = self.wait(self.start(hosts, **hyperparameters), [0] * hosts * self.per_host)
        return logs[0]

    def wait(self, processes: Iterable[Any], codes: list[int]) -> list[str]:
        """Wait for the end of all hosts, check their exit codes, and return their logs."""
        processes = list(processes)
        logs = [process.communicate(timeout=300)[0] for process in processes]
        assert [process.returncode for process in processes] == codes, "\n".join(logs)
        return logs

    def read_until(self, process: Any, start: str) -> str:
        """Read the log of a host up to the first line that begins with `start`, and return it."""
        log = ""
        for line in process.stdout:
            log += str(line)
            if line.startswith(start):
                return log
        raise AssertionError(f"the script ended before {start!r}: {log[-2_000:]}")

    def kill_at_checkpoint(self, victim: int, number: int, hosts: int = 2, **hyperparameters: Any) -> list[str]:
        """Start the hosts, kill one of them with -9 after some checkpoints, and return the logs."""
        processes = self.start(hosts, checkpoint_s=0, **hyperparameters)
        earlier_names, names = set(self.list_checkpoints()), set[str]()
        while len(names) < number:
            assert processes[0].poll() is None, processes[0].communicate()[0]
            names |= set(self.list_checkpoints()) - earlier_names
        processes[victim].send_signal(signal.SIGKILL)
        return self.wait(processes, [-signal.SIGKILL if rank == victim else 1 for rank in range(hosts)])

    def list_checkpoints(self) -> list[str]:
        """List the checkpoints that the first host has completed, oldest first."""
        return sorted(path.parent.name for path in self.first.glob("checkpoints/*/complete.json"))

    def copy_checkpoints(self, hosts: list[str]) -> None:
        """Merge the checkpoints of all hosts, and give them to the hosts of the next run. Remove all other files."""
        merged = self.base / "s3"
        shutil.rmtree(merged, ignore_errors=True)
        merged.mkdir(parents=True)
        for folder in sorted(self.base.glob("algo-*")):
            if (folder / "checkpoints").exists():
                shutil.copytree(folder / "checkpoints", merged, dirs_exist_ok=True)
            shutil.rmtree(folder)
        for name in hosts:
            shutil.copytree(merged, self.base / name / "checkpoints")
            (self.base / name / "output").mkdir()  # SageMaker makes it

    def start_process(self, rank: int, hosts: int, port: int, hyperparameters: dict[str, Any]) -> Any:
        """Start the script as one of the processes."""
        names, (host, local_rank) = [f"algo-{number + 1}" for number in range(hosts)], divmod(rank, self.per_host)
        env = {
            "SAGEMAKER_BASE_DIR": str(self.base / names[host]),
            "SM_CHANNEL_TRAIN": str(self.channels / "train"),
            "SM_CHANNEL_VALIDATION": str(self.channels / "validation"),
            "SM_HOSTS": json.dumps(names),
            "SM_CURRENT_HOST": names[host],
            "SM_NETWORK_INTERFACE_NAME": "lo",
            "TRAINING_JOB_NAME": self.base.name,
            **{"RANK": str(rank), "WORLD_SIZE": str(hosts * self.per_host), "LOCAL_RANK": str(local_rank)},
            **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
        }
        values = {**HYPERPARAMETERS, **self.hyperparameters, **hyperparameters}
        arguments = [argument for key, value in values.items() for argument in (f"--{key}", str(value))]
        command = (sys.executable, "-u", str(SCRIPT), *arguments)
        return self.commands.start(*command, env=env, stderr=subprocess.STDOUT)
