"""Test the template for language models in jobs of drydock: torchrun on two hosts, a stop, and a resume on one."""

from __future__ import annotations

import io
import os
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.code_files import locate_bundle
from tests.tools.language_model import HYPERPARAMETERS, REASON, ROOT, TEMPLATE, write_base_model, write_documents

for name in ("torch", "transformers", "peft"):
    pytest.importorskip(name, reason=REASON)

TORCHRUN = {"sagemaker_torch_distributed_enabled": "true"}
SLOW = {"epochs": 30, "checkpoint_s": 0.5}
"""180 steps: the job is not over when the first checkpoint is in S3."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, start_drydock: Any) -> Iterator[Any]:
    """Start drydock with torchrun in its PATH, and upload the channels."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    options = ("--cores", "8", "--memory-gib", "100", "--stop-grace", "60", "--checkpoint-interval", "0.2")
    folder, base = tmp_path_factory.mktemp("drydock"), write_base_model(tmp_path_factory.mktemp("base"))
    channels = {"model": base, "train": write_documents(tmp_path_factory.mktemp("train"))}
    with start_drydock(folder, *options, environment={"PATH": path}) as drydock:
        for name, channel in channels.items():
            for file in channel.iterdir():
                drydock.put(f"channels/{name}/{file.name}", file.read_bytes())
        yield drydock


def create_job(server: Any, name: str, hosts: int, **hyperparameters: Any) -> None:
    """Create a job of some hosts, with the files that SpotTrainingOperator would upload."""
    buffer = io.BytesIO()
    files = {"train.py": TEMPLATE / "train.py", **locate_bundle(TEMPLATE / "bundle.txt", ROOT)}
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path, file in files.items():
            tar.add(file, file.name if file.name == "requirements.txt" else path)
    code = server.put(f"language/{name}/sourcedir.tar.gz", buffer.getvalue())
    values = {key: str(value) for key, value in {**HYPERPARAMETERS, **SLOW, **hyperparameters}.items()}
    request = server.build_request(
        name,
        HyperParameters={**TORCHRUN, **values, "sagemaker_submit_directory": code},
        InputDataConfig=[
            server.build_channel(channel, f"s3://bucket/channels/{channel}/") for channel in ("model", "train")
        ],
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": hosts, "VolumeSizeInGB": 1},
        CheckpointConfig={"S3Uri": "s3://bucket/checkpoints"},
    )
    server.client("sagemaker").create_training_job(**request)


def test_a_training_stopped_on_two_hosts_resumes_on_one(server: Any) -> None:
    create_job(server, "two", 2, strategy="fsdp")
    server.wait_until("a checkpoint", lambda: "complete.json" in str(server.list_keys("checkpoints/")))
    server.stop_job("two")
    assert server.wait_for_end("two")["TrainingJobStatus"] == "Stopped"
    assert any("shard-00002" in key for key in server.list_keys("checkpoints/"))
    create_job(server, "one", 1)
    job = server.wait_for_end("one")
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    lines = server.read_full_log("one")
    (restored,) = [line for line in lines if line.startswith("checkpoint restored: ")]
    assert int(restored.removeprefix("checkpoint restored: name=")[:8]) > 0, lines[:20]
    archive = server.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"])
    assert {"adapter_model.safetensors", "adapter_config.json", "tokenizer.json", "training.json"} <= set(archive)
