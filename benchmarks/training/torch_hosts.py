"""Measure the torch template: rows a second with DDP and FSDP on one host and two, and the time of a checkpoint.

The hosts are processes of this machine with one thread each, connected by gloo over the loopback interface. So
messages take almost no time, and the machine needs a core for each host. For comparison, a plain loop of torch trains
the same neural network on the same batches in one process, without messages, metrics or checkpoints. The times are
those of whole epochs after the first one. A checkpoint is measured with a larger neural network, and the checkpoint's
shards are on the local disk.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
ROWS = int(os.environ.get("LEEWAY_BENCH_ROWS", "100000"))
FEATURES, EPOCHS, REPEATS, BATCH_ROWS = 20, 4, 3, 4_096
CASES = (("plain", 1), ("ddp", 1), ("fsdp", 1), ("ddp", 2), ("fsdp", 2))
NAMES = {"plain": "plain torch loop (peer)", "ddp": "DDP", "fsdp": "FSDP"}


def run() -> dict[str, Any] | None:
    """Return the seconds of epochs and of checkpoints, and facts such as the rows a second; None without torch."""
    if importlib.util.find_spec("torch") is None:
        sys.stderr.write("torch: skipped, because torch is not installed: pip install 'leeway[torch]'\n")
        return None
    cores = os.cpu_count() or 1
    if cores < 2:
        sys.stderr.write("this machine has one core for two hosts: they wait for each other\n")
    seconds: dict[str, list[float]] = {}
    facts: dict[str, Any] = {"rows": ROWS, "features": FEATURES, "rows of a batch": BATCH_ROWS}
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        _write_channels(base)
        for repeat in range(REPEATS):  # alternately, so that the machine's load is the same for all
            for strategy, hosts in CASES:
                result = _train(base / f"{repeat}-{strategy}-{hosts}", base, strategy, hosts)
                name = f"{NAMES[strategy]}, {hosts} host{'s' if hosts > 1 else ''}"
                seconds.setdefault(f"{name}, epoch", []).extend(result["epochs_s"])
                for action in ("save", "load"):
                    if result[f"{action}_s"]:
                        seconds.setdefault(f"{name}, {action} of a checkpoint", []).extend(result[f"{action}_s"])
                        facts["MiB of the checkpoint"] = round(result["checkpoint_mib"], 1)
    for name, values in seconds.items():
        if name.endswith(", epoch"):
            facts[name.replace(", epoch", ", rows/s")] = round(ROWS / statistics.median(values))
    return {"seconds": seconds, "facts": facts}


def _write_channels(base: Path) -> None:
    """Write synthetic rows with a learnable label: half of the features are numbers, half are categories."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(13)
    for name, rows in (("train", ROWS), ("validation", 1_000)):
        columns: dict[str, Any] = {f"x{number}": generator.normal(size=rows) for number in range(FEATURES // 2)}
        label = sum(columns.values()) + generator.normal(size=rows) > 0
        for number in range(FEATURES - len(columns)):
            columns[f"c{number}"] = generator.integers(0, 50, rows).astype(str)
        features = {column: "number" if column.startswith("x") else "category" for column in columns}
        table = pa.Table.from_pandas(pd.DataFrame({**columns, "label": label}), preserve_index=False)
        description = {"dataset": "bench", "task": "binary", "features": features, "label": "label"}
        (base / name).mkdir()
        table = table.replace_schema_metadata({b"leeway": json.dumps(description).encode()})
        pq.write_table(table, base / name / "data.parquet")


def _train(folder: Path, channels: Path, strategy: str, hosts: int) -> dict[str, Any]:
    """Run `torch_worker` on some hosts; return the measurements of the first host."""
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:  # finds a free port
        port = server.getsockname()[1]
    processes = []
    for rank in range(hosts):
        env = {
            **os.environ,
            "PYTHONPATH": str(PROJECT),
            "OMP_NUM_THREADS": "1",
            "SAGEMAKER_BASE_DIR": str(folder / f"algo-{rank + 1}"),
            "SM_NETWORK_INTERFACE_NAME": "lo" if sys.platform == "linux" else "lo0",
            **{f"SM_CHANNEL_{name.upper()}": str(channels / name) for name in ("train", "validation")},
            **{"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(hosts)},
            **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
        }
        command = [sys.executable, "-m", "benchmarks.training.torch_worker", strategy, str(EPOCHS), str(BATCH_ROWS)]
        pipe = subprocess.PIPE
        processes.append(subprocess.Popen(command, cwd=PROJECT, env=env, text=True, stdout=pipe, stderr=pipe))
    outputs = [process.communicate() for process in processes]
    for process, (_, error) in zip(processes, outputs, strict=True):
        if process.returncode:
            raise SystemExit(
                f"error: a host of {folder.name} ended with exit code {process.returncode}: {error[-2_000:]}"
            )
    result: dict[str, Any] = json.loads(outputs[0][0].splitlines()[-1])
    return result
