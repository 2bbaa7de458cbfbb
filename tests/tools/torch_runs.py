"""Run the PyTorch script of templates/torch on channels that the test makes, with torchrun as on several hosts."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from tests.tools.imports import ROOT

SCRIPT = ROOT / "templates/torch/training.py"
REASON = "torch is not installed: pip install 'leeway[torch]'"


def write_channels(folder: Path, scale: float = 1.0) -> Path:
    """Write the channels train and validation: two numbers with missing values, a category, and a label."""
    generator = np.random.default_rng(1)
    for name, count in (("train", 1_100), ("validation", 300)):
        rows = pd.DataFrame({"x": generator.normal(size=count), "z": generator.normal(3, 5, count)})
        rows["c"] = generator.choice(["a", "b", "d"], count)
        rows["y"] = (rows.x + 1.5 * (rows.c == "a") + generator.normal(size=count) > 0.5).astype(float) * scale
        rows.loc[::17, "x"] = np.nan
        features = {"x": "number", "z": "number", "c": "category"}
        task = "binary" if scale == 1.0 else "regression"
        description = {"dataset": "t", "task": task, "features": features, "label": "y"}
        table = pa.Table.from_pandas(rows, preserve_index=False)
        (folder / name).mkdir(parents=True)
        table = table.replace_schema_metadata({"leeway": json.dumps(description)})
        pq.write_table(table, folder / name / "data.parquet")
    return folder


class TorchJob:
    """A training job whose hosts share the folder of checkpoints, as they do after S3 has copied them.

    Args:
        base: folder of the job.
        channels: folder of the channels.
    """

    def __init__(self, base: Path, channels: Path) -> None:
        self.base, self.channels = base, channels
        (base / "output").mkdir(parents=True)
        self.checkpoints = base / "checkpoints"

    def start(self, hosts: int = 1, processes: int = 1, **hyperparameters: Any) -> list[subprocess.Popen[str]]:
        """Start torchrun on each host. Without torchrun if `processes` is 0."""
        values = {"epochs": 3, "batch_size": 100, "checkpoint_s": 1_000, **hyperparameters}
        arguments = [str(SCRIPT), *(part for name, value in values.items() for part in (f"--{name}", str(value)))]
        commands: list[Sequence[str]] = [[]]
        if processes:
            with socket.create_server(("127.0.0.1", 0)) as server:
                port = server.getsockname()[1]
            common = ["-m", "torch.distributed.run", "--nnodes", str(hosts), "--nproc_per_node", str(processes)]
            common += ["--master_addr", "127.0.0.1", "--master_port", str(port)]
            commands = [[*common, "--node_rank", str(rank)] for rank in range(hosts)]
        return [self._start([sys.executable, *command, *arguments]) for command in commands]

    def run(self, hosts: int = 1, processes: int = 1, **hyperparameters: Any) -> str:
        """Run the training to its end without an error, and return the output of the first host."""
        started = self.start(hosts, processes, **hyperparameters)
        outputs = [process.communicate(timeout=300)[0] for process in started]
        assert [process.returncode for process in started] == [0] * hosts, outputs
        return outputs[0]

    def read_weights(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the weights of the trained network."""
        from safetensors.numpy import load_file

        return dict(load_file(self.base / "model/weights.safetensors"))

    def list_steps(self) -> list[int]:
        """Return the steps of the checkpoints that are complete, ascending."""
        return sorted(int(path.parent.name.partition("-")[0]) for path in self.checkpoints.glob("*/state.json"))

    def _start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        env = {
            **os.environ,
            "SAGEMAKER_BASE_DIR": str(self.base),
            "SM_CHANNEL_TRAIN": str(self.channels / "train"),
            "SM_CHANNEL_VALIDATION": str(self.channels / "validation"),
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
        }
        return subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )


def kill_host(process: subprocess.Popen[str]) -> None:
    """Kill torchrun and its processes, as a machine that goes away. torchrun gives them a session of their own."""
    for child in [*psutil.Process(process.pid).children(recursive=True), process]:
        child.kill()
