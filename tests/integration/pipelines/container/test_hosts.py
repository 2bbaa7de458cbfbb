"""Test the training on several hosts: the model of one host, whichever host is killed or stopped, and at any moment."""

import fcntl
import hashlib
import json
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.defaults.channels import read_channel
from pipelines.defaults.model import load
from pipelines.features.parts import divide_file
from pipelines.system.files import sha256
from tests.tools.tuning import write_features

ROOT = Path(__file__).parents[4]
HOSTS = ["localhost", "127.0.0.1"]
"""Two names of this machine; macOS has no other loopback addresses."""
FOUR_HOSTS = [*HOSTS, "127.0.0.2", "127.0.0.3"]
"""Four names of this machine, on Linux."""
HYPERPARAMETERS = {"num_round": 90, "early_stopping_rounds": 90, "nthread": 1, "checkpoint_s": 0, "verbose_eval": 1}
ROUNDS = 240
"""Three interruptions come before this round, though up to 64 rounds are in the pipe of the log."""
BOUND = 1e-6
"""Largest difference of a score between one host and several."""
DIVIDED_BOUND = 1e-3
"""Largest mean difference of the scores between one host and several among which S3 divides the rows."""
QUANTILES = [0.1, 0.5, 0.9]
QUANTILE_LOSS_BOUND = 0.01
"""Largest relative difference of the quantile loss between one host and several."""


SLOW_STOP = """
import sys, time
from pipelines.container.hosts import read_hosts
from pipelines.container.signals import Stopped
from pipelines.defaults import collective
hosts = read_hosts()
try:
    with collective.join(collective.find_group(hosts, "")):
        collective.reduce_max(hosts, 1)
        time.sleep(hosts.index)
        raise Stopped
except Stopped:
    sys.exit(143)
"""
"""Script that is stopped; the second host needs one second longer than the first one."""


class HostsJob:
    """Run the script on some hosts. At each start, all folders are empty but the checkpoints of the first host.

    The other hosts never have a checkpoint, so the hosts disagree about the last one.
    """

    def __init__(self, base: Path, features: Path, commands: Any) -> None:
        self.base, self.features, self.commands = base, features, commands
        self.parts: list[Path] = []
        """Parts of the training rows, which are divided among the hosts as by S3; empty: each host has all rows."""
        self.first = base / HOSTS[0]
        self.checkpoints = self.first / "checkpoints"

    def divide(self) -> "HostsJob":
        """Divide the training rows among the hosts of each start."""
        folder = self.base / "parts"
        folder.mkdir(parents=True)
        divide_file(self.features / "train", folder)
        self.parts = sorted(folder.iterdir())
        return self

    def score(self) -> Any:
        """Score the rows of the validation with the model."""
        return load(self.first / "model").score(read_channel(self.features / "validation")[0])

    def start(self, hosts: Sequence[str] = HOSTS, **hyperparameters: Any) -> list[Any]:
        """Start the script on each host."""
        return [self.start_host(name, hosts, {**HYPERPARAMETERS, **hyperparameters}) for name in hosts]

    def run(self, hosts: Sequence[str] = HOSTS, **hyperparameters: Any) -> list[str]:
        """Run the script to its end without an error, and return the log of each host."""
        processes = self.start(hosts, **hyperparameters)
        logs = [process.communicate(timeout=300)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * len(hosts), logs
        return logs

    def start_host(self, name: str, hosts: Sequence[str], hyperparameters: dict[str, Any]) -> Any:
        """Start the script on one of the hosts."""
        folder = self.base / name
        shutil.rmtree(folder / "model", ignore_errors=True)
        shutil.rmtree(folder / "output", ignore_errors=True)
        (folder / "output").mkdir(parents=True)  # SageMaker makes it
        train = self.features / "train"
        if self.parts:
            train = folder / "input"
            shutil.rmtree(train, ignore_errors=True)
            train.mkdir()
            for part in self.parts[list(hosts).index(name) :: len(hosts)]:
                shutil.copy(part, train)
        distribution = "ShardedByS3Key" if self.parts else "FullyReplicated"
        env = {
            "SAGEMAKER_BASE_DIR": str(folder),
            "SM_INPUT_DATA_CONFIG": json.dumps({"train": {"S3DistributionType": distribution}}),
            "SM_CHANNEL_TRAIN": str(train),
            "SM_CHANNEL_VALIDATION": str(self.features / "validation"),
            "SM_HOSTS": json.dumps(list(hosts)),
            "SM_CURRENT_HOST": name,
            "TRAINING_JOB_NAME": str(self.base),
        }
        arguments = [argument for key, value in hyperparameters.items() for argument in (f"--{key}", str(value))]
        script = str(ROOT / "pipelines/defaults/training.py")
        return self.commands.start(sys.executable, "-u", script, *arguments, env=env, stderr=subprocess.STDOUT)


@pytest.fixture
def make_job(tmp_path: Path, commands: Any, trained: SimpleNamespace) -> Callable[[str], HostsJob]:
    """Return the function that makes a job in a folder of that name."""
    return lambda name: HostsJob(tmp_path / name, trained.data / "features", commands)


def read_restored_round(log: str) -> int:
    """Return the round of the checkpoint from which the first host resumed; 0 after a cold start."""
    (name,) = re.findall(r"^checkpoint restored: (?:none|name=(\d{6}) .*)$", log, re.MULTILINE)
    return int(name or 0)


def read_until(process: Any, start: str) -> str:
    """Read the log of a host up to the first line that begins with `start`, and return it."""
    log = ""
    for line in process.stdout:
        log += str(line)
        if line.startswith(start):
            return log
    raise AssertionError(f"the script ended before {start!r}: {log[-2_000:]}")


def limit_pipe(process: Any) -> None:
    """Limit the pipe of the log, so that the training waits for its reader, and is not over when a signal comes."""
    if sys.platform == "linux":
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4_096)


def count_rows(files: Sequence[Path]) -> int:
    """Count the rows of Parquet files."""
    return sum(pq.ParquetFile(path).metadata.num_rows for path in files)


def write_share(job: HostsJob, folder: Path) -> Path:
    """Write features whose training rows are the share of the first of two hosts, as an ordinary file."""
    train = job.features / "train" / "data.parquet"
    share = pd.concat([pd.read_parquet(path) for path in job.parts[::2]], ignore_index=True)
    schema = pq.read_schema(train)
    (folder / "train").mkdir(parents=True)
    pq.write_table(pa.Table.from_pandas(share, schema), folder / "train" / "data.parquet")
    (folder / "validation").symlink_to(job.features / "validation")
    return folder


def test_two_hosts_train_the_model_of_one(make_job: Callable[[str], HostsJob]) -> None:
    one, two = make_job("one"), make_job("two")
    one.run(HOSTS[:1])
    first_log, second_log = two.run()
    models = [load(job.first / "model") for job in (one, two)]
    rows, _ = read_channel(two.features / "validation")
    differences = np.abs(models[0].score(rows) - models[1].score(rows))
    assert differences.max() <= BOUND
    # xgboost does not promise equal bytes: they hold for this data, with one thread a host.
    assert sha256(two.first / "model") == sha256(one.first / "model")
    assert models[0].schema == models[1].schema
    shares = re.findall(r"has (\d+) of (\d+) rows", first_log + second_log)
    assert sum(int(share) for share, _ in shares) == int(shares[0][1]) and len(shares) == 2
    # Only the first host writes. SageMaker merges the folders of the hosts, and equal names would clash.
    second = two.base / HOSTS[1]
    assert not [path for path in second.rglob("*") if path.is_file()]
    environment = json.loads((two.first / "output/data/environment.json").read_text())
    assert environment["hosts"] == "2"
    assert "hosts" not in json.loads((one.first / "output/data/environment.json").read_text())


@pytest.mark.soak
def test_two_hosts_among_which_s3_divides_the_rows_train_nearly_the_model_of_one(
    make_job: Callable[[str], HostsJob], tmp_path: Path
) -> None:
    one, divided, own_share = make_job("one"), make_job("divided").divide(), make_job("own share")
    one.run(HOSTS[:1])
    logs = divided.run()
    row_count = str(count_rows(sorted((one.features / "train").glob("*.parquet"))))
    assert [re.findall(r"has (\d+) of (\d+) rows, from S3", log)[0] for log in logs] == [
        (str(count_rows(divided.parts[number::2])), row_count) for number in range(2)
    ]
    assert np.abs(one.score() - divided.score()).mean() <= DIVIDED_BOUND
    assert load(divided.first / "model").schema == load(one.first / "model").schema
    own_share.features = write_share(divided, tmp_path / "share")
    own_share.run(HOSTS[:1])
    assert np.abs(one.score() - own_share.score()).mean() > DIVIDED_BOUND, "the bound finds a host that trains alone"
    divided.parts.pop()
    processes = divided.start()
    for process, log in [(process, process.communicate(timeout=300)[0]) for process in processes]:
        assert process.returncode == 1
        assert re.search(r"^the hosts have \d+ rows of the channel train together, but the file", log.splitlines()[-1])


def test_quantiles_of_two_hosts_are_as_good_as_those_of_one(
    make_job: Callable[[str], HostsJob], tmp_path: Path
) -> None:
    write_features(tmp_path / "features", days=60, rows_per_day=100, validation_days=20, task="regression")
    labels = pd.read_parquet(tmp_path / "features/validation/data.parquet")["late"].to_numpy()[:, None]
    scores, logs = [], []
    for name, hosts in (("one", HOSTS[:1]), ("two", HOSTS)):
        job = make_job(name)
        job.features = tmp_path / "features"
        logs.append(job.run(hosts, quantiles=QUANTILES, num_round=30, checkpoint_s=1_000)[0])
        scores.append(np.asarray(job.score()))
    errors = [labels - values for values in scores]
    losses = [np.maximum(QUANTILES * error, (np.array(QUANTILES) - 1) * error).mean() for error in errors]
    assert abs(losses[1] - losses[0]) <= QUANTILE_LOSS_BOUND * losses[0]
    assert np.abs(scores[0] - scores[1]).max() > BOUND, "the scores are not those of one host, and the log says so"
    assert ["mean of the hosts' quantiles" in log for log in logs] == [False, True]


@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (3, *range(10, 18)))])
def test_kills_of_either_host_change_no_byte(make_job: Callable[[str], HostsJob], seed: int) -> None:
    """Each of the hosts is killed at a random moment, then one is stopped. At the end, both train the rest.

    With an even seed, S3 divides the rows among the hosts.
    """
    straight_job, job, generator = make_job("straight"), make_job("killed"), random.Random(seed)
    if seed % 2 == 0:
        straight_job, job = straight_job.divide(), job.divide()
    straight_job.run(num_round=ROUNDS, early_stopping_rounds=ROUNDS, checkpoint_s=1_000)
    rounds, victims = 0, generator.sample([0, 1], 2)
    ends = [(victims[0], signal.SIGKILL), (generator.choice([0, 1]), signal.SIGTERM), (victims[1], signal.SIGKILL)]
    for victim, number in ends:
        processes = job.start(num_round=ROUNDS, early_stopping_rounds=ROUNDS)
        limit_pipe(processes[0])
        log = read_until(processes[0], f"[{rounds + generator.randrange(6)}]\t")
        processes[victim].send_signal(number)
        logs = [process.communicate(timeout=300)[0] for process in processes]
        assert read_restored_round(log + logs[0]) == rounds
        codes = [process.returncode for process in processes]
        if number == signal.SIGKILL:
            assert codes[victim] == -signal.SIGKILL and codes[1 - victim] == 1, logs
            assert "the training on 2 hosts ended, perhaps because another host did" in logs[1 - victim]
        else:
            assert codes == [143, 143], logs
        rounds = max(int(path.name) for path in job.checkpoints.iterdir())
        assert not (job.first / "model").exists()
    log = job.run(num_round=ROUNDS, early_stopping_rounds=ROUNDS)[0]
    assert read_restored_round(log) == rounds > 0
    assert sha256(job.first / "model") == sha256(straight_job.first / "model")


def test_the_first_host_waits_until_the_others_have_stopped(commands: Any) -> None:
    environments = [{"SM_HOSTS": json.dumps(HOSTS), "SM_CURRENT_HOST": name} for name in HOSTS]
    processes = [
        commands.start(sys.executable, "-c", SLOW_STOP, env=env, stderr=subprocess.STDOUT) for env in environments
    ]
    logs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [143, 143], logs


@pytest.mark.parametrize(("hosts", "is_divided"), [(HOSTS, False), (FOUR_HOSTS, True)])
def test_resumes_on_half_of_the_hosts(make_job: Callable[[str], HostsJob], hosts: list[str], is_divided: bool) -> None:
    if len(hosts) > 2 and sys.platform != "linux":
        pytest.skip("four names of this machine need Linux")
    one, job = make_job("one"), make_job("elastic")
    one.run(HOSTS[:1], checkpoint_s=1_000)
    job = job.divide() if is_divided else job
    processes = job.start(hosts)
    limit_pipe(processes[0])
    read_until(processes[0], "[5]\t")
    for process in processes:
        process.kill()
        process.communicate()
    log = job.run(hosts[: len(hosts) // 2])[0]
    assert read_restored_round(log) >= 5
    differences = np.abs(one.score() - job.score())
    assert differences.mean() <= DIVIDED_BOUND if is_divided else differences.max() <= BOUND


def test_hosts_with_other_data_are_refused(make_job: Callable[[str], HostsJob]) -> None:
    job = make_job("job")
    processes = [
        job.start_host(name, HOSTS, {**HYPERPARAMETERS, "eta": eta})
        for name, eta in zip(HOSTS, (0.1, 0.5), strict=True)
    ]
    logs = [process.communicate(timeout=300)[0] for process in processes]
    line = f"the host {HOSTS[1]} has other data or other hyperparameters than {HOSTS[0]}."
    for log, name in zip(logs, HOSTS, strict=True):
        assert log.splitlines()[-1] == line == (job.base / name / "output/failure").read_text(), log
    assert not (job.first / "model").exists()


@pytest.mark.parametrize(("field", "other"), [("objective", "reg:squarederror"), ("features", {"x": "number"})])
def test_a_checkpoint_of_another_model_is_refused(make_job: Callable[[str], HostsJob], field: str, other: Any) -> None:
    job = make_job("job")
    job.run(HOSTS[:1], num_round=5)
    path = job.checkpoints / "000005"
    header, state, payload = path.read_bytes()[:-64].split(b"\n", 2)
    changed_state = json.dumps({**json.loads(state), field: other}).encode()
    content = b"\n".join([header, changed_state, payload])
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())
    (process,) = job.start(HOSTS[:1], num_round=5)
    log = process.communicate(timeout=300)[0]
    assert process.returncode == 1 and "Traceback" not in log
    expected = f"the checkpoint after round 5 is of a model with other {field}: {str(other)[:200]}, not "
    assert log.splitlines()[-1].startswith(expected)
