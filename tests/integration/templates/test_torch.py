"""Test the template of torch: one model on any number of hosts, whichever dies, and one line for each wrong input."""

import csv
import hashlib
import json
import random
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.container.torch.checkpoint_folders import MARKER_FILE
from pipelines.defaults.channels import read_channel
from pipelines.system.files import sha256
from tests.tools.torch_jobs import REASON, SCRIPT, TorchJob, write_channels

pytest.importorskip("torch", reason=REASON)

BOUND = 2e-6
"""Largest difference of a score between two ways to train with fp32: gradients are added up in another order."""


@pytest.fixture(scope="module")
def channels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_channels(tmp_path_factory.mktemp("channels"))


@pytest.fixture
def make_job(tmp_path: Path, channels: Path, commands: Any, free_port: Callable[[], int]) -> Callable[..., TorchJob]:
    """Return the function that makes a job in a folder of that name."""
    return lambda name, **hyperparameters: TorchJob(tmp_path / name, channels, commands, free_port, hyperparameters)


def compute_scores(job: TorchJob) -> np.ndarray[Any, Any]:
    from templates.torch.model import load

    return np.asarray(load(job.first / "model").score(read_channel(job.channels / "validation")[0]))


def read_restored_update(log: str) -> int:
    """Return the update of the checkpoint from which the job resumed; 0 after a cold start."""
    (name,) = re.findall(r"^checkpoint restored: (?:none|name=(\d{8})\S+ saved_at=\S+)$", log, re.MULTILINE)
    return int(name or 0)


def test_hosts_strategies_and_accumulation_give_one_model(make_job: Callable[..., TorchJob]) -> None:
    reference = make_job("one")
    reference.run(hosts=1)
    scores = compute_scores(reference)
    halves = {"batch_rows": 50, "accumulation": 2}
    bf16, differences = {"precision": "bf16"}, {}
    for name, hosts, options in (
        ("ddp", 2, {}),
        ("fsdp", 2, {"strategy": "fsdp"}),
        ("ddp-halves", 2, halves),
        ("fsdp-halves", 3, {**halves, "strategy": "fsdp"}),
        ("ddp-bf16", 1, bf16),
        ("fsdp-bf16", 2, {**bf16, "strategy": "fsdp"}),
        ("other-batch", 1, {"batch_rows": 50}),
    ):
        job = make_job(name, **options)
        job.run(hosts)
        differences[name] = np.abs(compute_scores(job) - scores).max()
    equal = {"ddp", "fsdp", "ddp-halves", "fsdp-halves"}
    assert all((difference <= BOUND) == (name in equal) for name, difference in differences.items()), differences
    assert max(differences["ddp-bf16"], differences["fsdp-bf16"]) < 0.05, "bf16 trains nearly the same model"
    assert differences["other-batch"] > 100 * BOUND, "another batch is another training"


def test_processes_of_one_host_share_its_checkpoints(make_job: Callable[..., TorchJob]) -> None:
    job = make_job("job", strategy="fsdp", epochs=1, checkpoint_updates=10)
    job.per_host = 2
    job.run(hosts=1)
    names = [path.name for path in (job.first / "checkpoints" / job.list_checkpoints()[-1]).iterdir()]
    assert sum(name.startswith("shard-") for name in names) == 2
    job.per_host = 1
    assert read_restored_update(job.run(hosts=1)) == 20


def test_only_the_first_host_writes(make_job: Callable[..., TorchJob]) -> None:
    job = make_job("job")
    log = job.run()
    names = {str(path.relative_to(job.first)) for path in job.first.rglob("*") if path.is_file()}
    records = {"environment.json", "params.json", "resources.json", "rounds.csv", "scores.parquet"}
    assert names == {"model/model.safetensors", "model/inputs.json", *(f"output/data/{name}" for name in records)}
    assert not [path for path in (job.base / "algo-2").rglob("*") if path.is_file()]
    with (job.first / "output/data/rounds.csv").open() as file:
        rounds = list(csv.DictReader(file))
    assert [row["round"] for row in rounds] == ["0", "1", "2"]
    share = json.loads((job.first / "output/data/resources.json").read_text())["data_wait_share"]
    assert 0 < share < 1 and f"data_wait_share={share:.3f};" in log, "the ledger of costs reads the log"
    losses = [float(row["validation-logloss"]) for row in rounds]
    assert losses == sorted(losses, reverse=True), "it learns"


@pytest.mark.parametrize(
    ("strategy", "seed"),
    [("ddp", 1), ("fsdp", 2), *(pytest.param("fsdp", seed, marks=pytest.mark.soak) for seed in range(10, 16))],
)
def test_kills_of_either_host_change_no_byte(make_job: Callable[..., TorchJob], strategy: str, seed: int) -> None:
    """Each host is killed at a random moment while checkpoints are saved; S3 then lacks a file of the newest one."""
    generator = random.Random(seed)
    straight_job, job = (make_job(name, strategy=strategy, epochs=5) for name in ("straight", "killed"))
    straight_job.run()
    for victim in generator.sample([0, 1], 2):
        logs = job.kill_at_checkpoint(victim, 2 + generator.randrange(4))
        assert "the training in 2 processes ended, perhaps because another host did: " in logs[1 - victim]
        assert not (job.first / "model").exists()
        newest = job.list_checkpoints()[-1]
        generator.choice(sorted(job.base.glob(f"algo-?/checkpoints/{newest}/*"))).unlink()
    log = job.run()
    assert read_restored_update(log) > 0
    assert sha256(job.first / "model") == sha256(straight_job.first / "model")
    assert (job.first / "output/data/rounds.csv").read_bytes() == (
        straight_job.first / "output/data/rounds.csv"
    ).read_bytes()


@pytest.mark.parametrize("victim", [0, 1])
def test_a_stop_of_one_host_stops_all_with_a_checkpoint(make_job: Callable[..., TorchJob], victim: int) -> None:
    job = make_job("job", epochs=2_000)
    processes = job.start()
    log = job.read_until(processes[0], "[2]")
    processes[victim].send_signal(signal.SIGTERM)
    logs = job.wait(processes, [143, 143])
    assert all(text.endswith("stopped; the last checkpoint is saved\n") for text in logs), logs
    assert read_restored_update(log) == 0
    (name,) = job.list_checkpoints()
    updates = int(name.split("-")[0])
    processes = job.start()
    assert read_restored_update(job.read_until(processes[0], "checkpoint restored")) == updates > 40
    assert f"resuming after update {updates}," in job.read_until(processes[0], "resuming")


def damage_shard(folder: Path) -> None:
    shard = sorted(folder.glob("shard-*"))[-1]
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x7f")


def remove_marker(folder: Path) -> None:
    (folder / MARKER_FILE).unlink()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [(damage_shard, "is truncated or corrupt"), (remove_marker, f"is incomplete: it has no {MARKER_FILE}")],
)
def test_an_incomplete_checkpoint_is_passed_over(
    make_job: Callable[..., TorchJob], damage: Callable[[Path], None], reason: str
) -> None:
    job = make_job("job", epochs=1, checkpoint_updates=5)  # 20 updates
    job.run()
    older, newest = job.list_checkpoints()
    for folder in job.base.glob(f"algo-?/checkpoints/{newest}"):
        if any(folder.glob("*")) and (damage is damage_shard or (folder / MARKER_FILE).exists()):
            damage(folder)
    log = job.run()
    assert read_restored_update(log) == int(older.split("-")[0]) == 15
    assert re.search(rf"^checkpoint {newest} .*{reason}; trying the one before$", log, re.MULTILINE), log
    assert newest not in job.list_checkpoints(), "what is broken is removed"


def test_a_checkpoint_of_other_hyperparameters_is_passed_over(make_job: Callable[..., TorchJob]) -> None:
    job = make_job("job", epochs=1, checkpoint_updates=10)
    job.run(hosts=1)
    names = job.list_checkpoints()
    log = job.run(hosts=1, learning_rate=0.1)
    assert read_restored_update(log) == 0
    assert f"checkpoint {names[-1]} belongs to other hyperparameters or other data" in log
    assert set(names) < set(job.list_checkpoints()), "those of another training stay"
    assert read_restored_update(job.run(hosts=1, strategy="fsdp")) == 20, "the strategy may change"


def change_marker(job: TorchJob, change: Callable[[dict[str, Any]], None]) -> str:
    """Change the content of the newest marker, with a right digest; return the name of the checkpoint."""
    name = job.list_checkpoints()[-1]
    path = job.first / "checkpoints" / name / MARKER_FILE
    content = json.loads(path.read_bytes().split(b"\n")[0])
    change(content)
    line = json.dumps(content).encode()
    path.write_bytes(line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n")
    return name


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: content["state"]["features"].pop("x"), "is that of a model with other features."),
        (
            lambda content: content["tensors"].update({"model.output.weight": [3, 8]}),
            "is that of another model: model.output.weight has shape [3, 8] there, and shape [1, 8] here.",
        ),
        (
            lambda content: content["tensors"].update({"model.more.weight": [3]}),
            "is that of another model: model.more.weight has shape [3] there, and none here.",
        ),
    ],
)
def test_a_checkpoint_of_another_schema_is_refused(
    make_job: Callable[..., TorchJob], change: Callable[[dict[str, Any]], None], reason: str
) -> None:
    job = make_job("job", epochs=1, checkpoint_updates=10)
    job.run(hosts=1)
    name = change_marker(job, change)
    (log,) = job.wait(job.start(hosts=1), [1])
    line = log.splitlines()[-1]
    assert line.startswith(f"the checkpoint {name} {reason}") and "Traceback" not in log
    assert (job.first / "output/failure").read_text() == line
    assert not (job.first / "model").exists()


def test_a_loss_that_is_no_number_ends_all_hosts(make_job: Callable[..., TorchJob]) -> None:
    job = make_job("job", learning_rate=1e9, weight_decay=1e9, checkpoint_s=0)
    for rank, log in enumerate(job.wait(job.start(), [1, 1])):
        line = log.splitlines()[-1]
        assert re.fullmatch(
            r"the (loss|gradient) is (nan|inf) in epoch \d, row \d+ of 2000\. Lower learning_rate.*", line
        )
        assert "Traceback" not in log
        assert (job.base / f"algo-{rank + 1}/output/failure").read_text() == line
    assert not (job.first / "model").exists()


def test_hosts_with_other_inputs_are_refused(make_job: Callable[..., TorchJob]) -> None:
    job = make_job("job")
    port = job.find_port()
    job.copy_checkpoints(["algo-1", "algo-2"])
    processes = [job.start_process(rank, 2, port, {"seed": rank}) for rank in range(2)]
    for log in job.wait(processes, [1, 1]):
        assert log.splitlines()[-1] == (
            "the process of rank 1 has other data or other hyperparameters than that of rank 0."
        )


@pytest.mark.parametrize(
    ("arguments", "hosts", "line"),
    [
        (
            ["--precision", "fp16"],
            1,
            "hyperparameter precision: fp16 needs CUDA and the strategy ddp. Use bf16 or fp32.",
        ),
        (["--strategy", "zero"], 1, "hyperparameter strategy: invalid choice: 'zero' (choose from 'ddp', 'fsdp')."),
        ([], 2, "the job has 2 hosts, but torchrun did not start the script. Set distribution="),
    ],
)
def test_wrong_inputs_are_one_line(
    tmp_path: Path, channels: Path, commands: Any, arguments: list[str], hosts: int, line: str
) -> None:
    (tmp_path / "output").mkdir()
    env = {
        "SAGEMAKER_BASE_DIR": str(tmp_path),
        "SM_HOSTS": json.dumps([f"algo-{number + 1}" for number in range(hosts)]),
        **{f"SM_CHANNEL_{name.upper()}": str(channels / name) for name in ("train", "validation")},
    }
    result = commands.run(sys.executable, str(SCRIPT), *arguments, env=env)
    assert result.code == 1
    assert result.err.splitlines()[-1].startswith(line) and "Traceback" not in result.err
    assert (tmp_path / "output/failure").read_text().startswith(line)


@pytest.mark.parametrize("task", ["regression", "multiclass"])
def test_other_tasks_learn(tmp_path: Path, commands: Any, free_port: Callable[[], int], task: str) -> None:
    from templates.torch.model import load

    job = TorchJob(tmp_path / "job", write_channels(tmp_path / "channels", task), commands, free_port)
    job.run(hosts=1, epochs=6)
    model, (rows, _) = load(job.first / "model"), read_channel(job.channels / "validation")
    scores: Any = model.score(rows)
    if task == "regression":
        assert np.corrcoef(scores, rows["label"])[0, 1] > 0.9
    else:
        assert (scores.idxmax(axis=1) == rows["label"]).mean() > 0.7
        assert list(scores.columns) == ["high", "low", "middle"]
    importance = model.importance()
    assert set(importance) == {"x", "y", "kind"} and sum(importance.values()) == pytest.approx(1)
    unknown = rows.assign(kind="new").head(3)
    assert np.isfinite(np.asarray(model.score(unknown))).all(), "a category that training did not see counts as missing"
