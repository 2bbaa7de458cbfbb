"""Measure the default training script on 1, 2 and 4 hosts, each with one thread, and the bytes that the hosts send.

The hosts are processes of this machine with loopback addresses, so the network takes almost no time. Where the machine
has fewer cores than hosts, the hosts wait for each other. So the CPU seconds of the busiest host are measured, too:
with a core for each host, the rounds would take about that long. From these CPU seconds and the sent bytes, the
benchmark computes the seconds that are expected on real networks. The facts also have the prediction of the planner's
model, which divides the CPU seconds of one host by the number of hosts (pipelines/planning/step_time.py).
The seconds of the rounds are those of a job with all rounds minus those of a job with one round, because reading the
data and making the bins takes as long on several hosts as on one. The rows are synthetic, because flights has too few
rows: with them, a round takes milliseconds on one host.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.planning.step_time import estimate_step

PROJECT = Path(__file__).parents[2]
HOST_COUNTS = (1, 2, 4)
REPEATS = 3
ROWS = int(os.environ.get("LEEWAY_BENCH_ROWS", "2000000"))
VALIDATION_ROWS = 20_000
FEATURES = 20
ROUNDS = 101
"""Rounds of a job. The first one is not measured."""
NETWORKS_GB_S = {"1 Gbit/s": 0.125, "10 Gbit/s": 1.25, "25 Gbit/s": 3.125}
"""Bandwidth of each network, GB/s."""
HOP_S = 100e-6
"""Assumed time of a message between two instances of one availability zone, seconds."""
DEPTH = 6
HYPERPARAMETERS = {"early_stopping_rounds": 1_000, "nthread": 1, "checkpoint_s": 1_000, "max_depth": DEPTH}
"""With these values, no job stops early or writes a checkpoint before its end."""


@dataclass(frozen=True)
class Run:
    """The measurements of one job.

    Attributes:
        seconds: seconds from the start of the job to the end of all hosts.
        cpu_s: CPU seconds of the host that used most.
        sent_bytes: bytes that the machine sent to itself.
    """

    seconds: float
    cpu_s: float
    sent_bytes: int


def run() -> dict[str, Any]:
    """Return the seconds of each repetition; as facts, the sent MiB and the seconds expected on real networks."""
    cores = len(os.sched_getaffinity(0))
    seconds: dict[str, list[float]] = {}
    facts: dict[str, Any] = {"rows": ROWS, "features": FEATURES, "cores": cores}
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        _write_channels(base)
        for repeat in range(REPEATS):  # alternately, so that the machine's load is the same for all
            for count in HOST_COUNTS:
                one_round, all_rounds = (
                    _train(base, count, rounds, f"{repeat}-{count}-{rounds}") for rounds in (1, ROUNDS)
                )
                name = _format_hosts(count)
                if count <= cores:
                    seconds.setdefault(f"{name}, whole job", []).append(all_rounds.seconds)
                    seconds.setdefault(f"{name}, {ROUNDS - 1} rounds", []).append(
                        all_rounds.seconds - one_round.seconds
                    )
                seconds.setdefault(_format_cpu_name(count), []).append(all_rounds.cpu_s - one_round.cpu_s)
                sent_mib = (all_rounds.sent_bytes - one_round.sent_bytes) / (ROUNDS - 1) / 2**20
                facts[f"{name}, MiB sent in a round"] = round(sent_mib, 3)
    return {"seconds": seconds, "facts": facts | estimate_networks(seconds, facts)}


def estimate_networks(seconds: Mapping[str, list[float]], facts: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of all rounds that are expected on real networks, by number of hosts and network.

    They are the sum of the seconds of the network and the measured CPU seconds of the busiest host. For the planner's
    model, the CPU seconds are those of a job with one host, divided by the number of hosts.
    """
    rounds = ROUNDS - 1
    estimates: dict[str, float] = {}
    for count in HOST_COUNTS[1:]:
        measured_s = statistics.median(seconds[_format_cpu_name(count)])
        divided_s = statistics.median(seconds[_format_cpu_name(1)]) / count
        # The bytes that one host sends in all rounds. The fact is the sum over the hosts.
        sent_bytes = facts[f"{count} hosts, MiB sent in a round"] * 2**20 * rounds / count
        # Each depth of a tree is one all-reduce, whose messages pass the ring twice.
        hops = rounds * DEPTH * 2 * (count - 1)
        for name, bandwidth_gb_s in NETWORKS_GB_S.items():
            network_s = sent_bytes / (bandwidth_gb_s * 1e9) + hops * HOP_S
            text = f"{count} hosts, {rounds} rounds expected on {name}"
            estimates[f"{text}, s"] = round(estimate_step(measured_s, network_s, overlap=0).total_s, 2)
            planned_s = estimate_step(divided_s, network_s, overlap=0).total_s
            estimates[f"{text} by the planner's model, s"] = round(planned_s, 2)
    return estimates


def _format_hosts(count: int) -> str:
    return f"{count} host{'s' if count > 1 else ''}"


def _format_cpu_name(count: int) -> str:
    return f"{_format_hosts(count)}, {ROUNDS - 1} rounds, CPU of the busiest host"


def _write_channels(base: Path) -> None:
    generator = np.random.default_rng(13)
    names = [f"feature_{number}" for number in range(FEATURES)]
    features = dict.fromkeys(names, "number")
    description = {"dataset": "synthetic", "task": "binary", "label": "label", "features": features}
    for channel, count in (("train", ROWS), ("validation", VALIDATION_ROWS)):
        values = generator.normal(size=(count, FEATURES)).astype(np.float32)
        noise = generator.normal(size=count)
        frame = pd.DataFrame(values, columns=names)
        frame["label"] = values[:, 0] + values[:, 1] * values[:, 2] + noise > 0
        table = pa.Table.from_pandas(frame, preserve_index=False)
        (base / channel).mkdir()
        metadata = {b"leeway": json.dumps(description).encode()}
        pq.write_table(table.replace_schema_metadata(metadata), base / channel / "data.parquet")


def _train(base: Path, host_count: int, rounds: int, job: str) -> Run:
    """Run a job, and return its measurements."""
    hosts = [f"127.77.7.{number}" for number in range(1, host_count + 1)]
    options = {**HYPERPARAMETERS, "num_round": rounds, "verbose_eval": rounds}
    arguments = [argument for name, value in options.items() for argument in (f"--{name}", str(value))]
    sent_before, began_at = _count_sent_bytes(), time.monotonic()
    processes = [_start_host(base, hosts, host, job, arguments) for host in hosts]
    ends = [os.wait4(process.pid, 0) for process in processes]
    seconds = time.monotonic() - began_at
    if codes := [os.waitstatus_to_exitcode(status) for _, status, _ in ends if status]:
        raise RuntimeError(f"hosts ended with the exit codes {codes}")
    cpu_s = max(usage.ru_utime + usage.ru_stime for _, _, usage in ends)
    return Run(seconds, cpu_s, _count_sent_bytes() - sent_before)


def _start_host(base: Path, hosts: list[str], host: str, job: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    folder = base / job / host
    (folder / "output").mkdir(parents=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(PROJECT),
        "SAGEMAKER_BASE_DIR": str(folder),
        "SM_CHANNEL_TRAIN": str(base / "train"),
        "SM_CHANNEL_VALIDATION": str(base / "validation"),
        "SM_HOSTS": json.dumps(hosts),
        "SM_CURRENT_HOST": host,
        "TRAINING_JOB_NAME": f"{base}/{job}",
    }
    command = [sys.executable, str(PROJECT / "pipelines/defaults/training.py"), *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _count_sent_bytes() -> int:
    interfaces = psutil.net_io_counters(pernic=True)
    return sum(counters.bytes_sent for name, counters in interfaces.items() if name.startswith("lo"))
