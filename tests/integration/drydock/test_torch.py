"""Test torchrun in jobs of several hosts: the template's script trains, is stopped on four hosts and resumes on two."""

import io
import os
import re
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.code_files import locate_bundle
from pipelines.defaults.channels import read_channel
from tests.tools.torch_jobs import HYPERPARAMETERS, REASON, ROOT, SCRIPT, TorchJob, write_channels

pytest.importorskip("torch", reason=REASON)

BOUND = 2e-6
"""Largest difference of a score between a training on one host, and one that is stopped on four and resumes on two."""
TORCHRUN = {"sagemaker_torch_distributed_enabled": "true"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, start_drydock: Any) -> Iterator[Any]:
    """Start drydock with torchrun in its PATH, and upload the channels."""
    folder = tmp_path_factory.mktemp("drydock-torch")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    options = ("--cores", "8", "--memory-gib", "100", "--stop-grace", "60", "--checkpoint-interval", "0.2")
    with start_drydock(folder, *options, environment={"PATH": path}) as drydock:
        for file in write_channels(folder / "channels").glob("*/data.parquet"):
            drydock.put(f"channels/{file.parent.name}/data.parquet", file.read_bytes())
        drydock.channels = folder / "channels"
        yield drydock


def create_job(
    server: Any, name: str, hosts: int, checkpoints: str = "", is_spot: bool = False, **hyperparameters: Any
) -> None:
    """Create a job that runs the template on some hosts, from its bundle."""
    limits = {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path, file in {"train.py": SCRIPT, **locate_bundle(SCRIPT.with_name("bundle.txt"), ROOT)}.items():
            tar.add(file, path)
    code = server.put(f"torch/{name}/sourcedir.tar.gz", buffer.getvalue())
    values = {key: str(value) for key, value in {**HYPERPARAMETERS, **hyperparameters}.items()}
    request = server.build_request(
        name,
        HyperParameters={**TORCHRUN, **values, "sagemaker_submit_directory": code},
        InputDataConfig=[
            server.build_channel(channel, f"s3://bucket/channels/{channel}/") for channel in ("train", "validation")
        ],
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": hosts, "VolumeSizeInGB": 1},
        **({"CheckpointConfig": {"S3Uri": f"s3://bucket/{checkpoints}"}} if checkpoints else {}),
        **({"EnableManagedSpotTraining": True, "StoppingCondition": limits} if is_spot else {}),
    )
    server.client("sagemaker").create_training_job(**request)


def read_scores(server: Any, job: dict[str, Any], folder: Path) -> np.ndarray[Any, Any]:
    """Return the scores of the validation rows by the model of a job."""
    from templates.torch.model import load

    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    folder.mkdir()
    for name, content in server.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"]).items():
        (folder / name).write_bytes(content)
    return np.asarray(load(folder).score(read_channel(server.channels / "validation")[0]))


def test_a_training_stopped_on_four_hosts_resumes_on_two(
    server: Any, tmp_path: Path, commands: Any, free_port: Callable[[], int]
) -> None:
    from templates.torch.model import load

    options = {"strategy": "fsdp", "epochs": 12}  # of 20 updates
    create_job(server, "four", 4, "checkpoints/elastic", **options, checkpoint_updates=5)
    server.wait_until("a checkpoint", lambda: "complete.json" in str(server.list_keys("checkpoints/elastic/")))
    server.stop_job("four")
    assert server.wait_for_end("four")["TrainingJobStatus"] == "Stopped"
    keys = server.list_keys("checkpoints/elastic/")
    assert any("shard-00004" in key for key in keys), keys
    create_job(server, "two", 2, "checkpoints/elastic", **options)
    scores = read_scores(server, server.wait_for_end("two"), tmp_path / "two")
    lines = server.read_full_log("two")
    (restored,) = [line for line in lines if line.startswith("checkpoint restored: ")]
    (resumed,) = [line for line in lines if line.startswith("resuming after update ")]
    assert re.fullmatch(r"checkpoint restored: name=\d{8}-\S+ saved_at=\S+", restored), lines
    assert 0 < int(resumed.split()[3].rstrip(",")) < 240
    straight_job = TorchJob(tmp_path / "job", server.channels, commands, free_port, options)
    straight_job.run(hosts=1)
    straight_scores = load(straight_job.first / "model").score(read_channel(server.channels / "validation")[0])
    assert np.abs(scores - straight_scores).max() <= BOUND


def test_interrupted_spot_training_of_two_hosts_resumes_on_both(server: Any) -> None:
    create_job(server, "spot", 2, "checkpoints/spot", True, strategy="fsdp", epochs=12, checkpoint_updates=5)
    server.wait_until("a checkpoint", lambda: "complete.json" in str(server.list_keys("checkpoints/spot/")))
    server.send_command("interrupt", job="spot", no_capacity_s=0.5)
    job = server.wait_for_end("spot")
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    phases = [transition["Status"] for transition in job["SecondaryStatusTransitions"]]
    assert phases.count("Interrupted") == 1 and phases.count("Training") == 2
    (resumed,) = [line for line in server.read_full_log("spot") if line.startswith("resuming after update ")]
    assert 0 < int(resumed.split()[3].rstrip(",")) < 240, "the second run of both hosts begins at one checkpoint"


def test_a_wrong_hyperparameter_is_one_line(server: Any) -> None:
    create_job(server, "wrong", 1, precision="fp16")
    job = server.wait_for_end("wrong")
    assert job["TrainingJobStatus"] == "Failed"
    assert "hyperparameter precision: fp16 needs CUDA and the strategy ddp. Use bf16 or fp32." in job["FailureReason"]
