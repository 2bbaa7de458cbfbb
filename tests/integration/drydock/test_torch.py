"""Test a PyTorch script on several hosts of drydock, with the real torchrun; skipped where torch is not installed."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.imports import ROOT
from tests.tools.torch_runs import REASON, SCRIPT, write_channels

SETTINGS = {
    "sagemaker_torch_distributed_enabled": "true",
    "sagemaker_instance_type": "ml.m5.large",
    "sagemaker_program": "training.py",
    "batch_size": "100",
}


@pytest.fixture(scope="module")
def drydock(tmp_path_factory: pytest.TempPathFactory, start_drydock: Any) -> Iterator[Any]:
    """Start a server that finds torchrun beside its Python, and upload the channels and the script with its files."""
    pytest.importorskip("torch", reason=REASON)
    folder = tmp_path_factory.mktemp("torch")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    options = ("--cores", "8", "--memory-gib", "100", "--stop-grace", "120", "--checkpoint-interval", "0.2")
    with start_drydock(folder, *options, environment={"PATH": path, "OMP_NUM_THREADS": "1"}) as server:
        for file in write_channels(folder / "channels").rglob("*.parquet"):
            server.put(f"{file.parent.name}/data.parquet", file.read_bytes())
        names = SCRIPT.with_name("bundle.txt").read_text().split()
        files = {name: (ROOT / name).read_text() for name in names} | {"training.py": SCRIPT.read_text()}
        server.put("code/sourcedir.tar.gz", server.pack_archive(files))
        yield server


def build_fields(drydock: Any, name: str, hosts: int, **hyperparameters: Any) -> dict[str, Any]:
    """Return the fields of a request for the script on some hosts, with the checkpoints of the job `name`."""
    texts = {key: str(value) for key, value in hyperparameters.items()}
    channels = [drydock.build_channel(channel, f"s3://bucket/{channel}/") for channel in ("train", "validation")]
    settings = {**SETTINGS, "sagemaker_submit_directory": "s3://bucket/code/sourcedir.tar.gz", **texts}
    return {
        "HyperParameters": settings,
        "InputDataConfig": channels,
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": hosts, "VolumeSizeInGB": 1},
        "CheckpointConfig": {"S3Uri": f"s3://bucket/checkpoints/{name}"},
    }


def test_two_hosts_train_one_network(drydock: Any) -> None:
    job = drydock.run_job("two", **build_fields(drydock, "two", 2, epochs=2, strategy="fsdp", checkpoint_s=0))
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    lines = drydock.read_full_log("two")
    assert "checkpoint restored: none" in lines and [line for line in lines if line.startswith("[1]\ttrain-logloss:")]
    model = drydock.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"])
    assert set(model) == {"schema.json", "weights.safetensors"}
    keys = drydock.list_keys("checkpoints/two/")
    names = {key.split("/")[2] for key in keys}
    shards = sorted(key.rsplit("/", 1)[1] for key in keys if "shard" in key)
    assert len(names) == 2 and len(shards) == 4, "each host writes its own shard of two checkpoints"


def test_four_hosts_are_stopped_and_two_resume(drydock: Any) -> None:
    drydock.create_job("four", **build_fields(drydock, "elastic", 4, epochs=100_000, checkpoint_s=1))
    drydock.wait_until(
        "a checkpoint", lambda: [key for key in drydock.list_keys("checkpoints/elastic/") if "state" in key]
    )
    drydock.stop_job("four")
    assert drydock.wait_for_end("four")["TrainingJobStatus"] == "Stopped"
    steps = [
        int(key.split("/")[2].partition("-")[0]) for key in drydock.list_keys("checkpoints/elastic/") if "state" in key
    ]
    epochs = max(steps) // 11 + 1
    job = drydock.run_job("two-more", **build_fields(drydock, "elastic", 2, epochs=epochs, strategy="fsdp"))
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    restored = [line for line in drydock.read_full_log("two-more") if line.startswith("checkpoint restored")]
    assert [line.partition(" saved_at")[0] for line in restored] == [f"checkpoint restored: name={max(steps):06d}"]


def test_a_wrong_hyperparameter_is_the_reason_of_the_failure(drydock: Any) -> None:
    job = drydock.run_job("wrong", **build_fields(drydock, "wrong", 2, depth=0))
    assert job["TrainingJobStatus"] == "Failed"
    assert "hyperparameter depth must be from 1 to 1000, not 0." in job["FailureReason"]
