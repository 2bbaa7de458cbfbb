"""A job's folder tree: what is /opt/ml in a SageMaker container."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from drydock.rules import CONTAINER_BASE

HOST = "algo-1"


@dataclass(frozen=True)
class JobTree:
    """The paths below root, named as SageMaker names them below /opt/ml."""

    root: Path

    @property
    def config(self) -> Path:
        """input/config: the three JSON files."""
        return self.root / "input" / "config"

    @property
    def model(self) -> Path:
        """What the script leaves here becomes model.tar.gz."""
        return self.root / "model"

    @property
    def output(self) -> Path:
        """output/failure is the script's word on why it failed."""
        return self.root / "output"

    @property
    def output_data(self) -> Path:
        """What the script leaves here becomes output.tar.gz."""
        return self.root / "output" / "data"

    @property
    def code(self) -> Path:
        """The unpacked source bundle; the job's working directory."""
        return self.root / "code"

    @property
    def log(self) -> Path:
        """Stdout and stderr of the job, merged. Not part of SageMaker's tree."""
        return self.root / "job.log"

    @property
    def process_note(self) -> Path:
        """Which process runs the job, while it runs. Not part of SageMaker's tree."""
        return self.root / "process.json"

    def channel(self, name: str) -> Path:
        """The files of one input channel."""
        return self.root / "input" / "data" / name

    def checkpoints(self, request: Mapping[str, Any]) -> Path:
        """The checkpoint folder: CheckpointConfig.LocalPath, seen from this tree."""
        local = PurePosixPath(request.get("CheckpointConfig", {}).get("LocalPath", "/opt/ml/checkpoints"))
        return self.root / local.relative_to(CONTAINER_BASE)

    def create(self, request: Mapping[str, Any]) -> None:
        """The tree is there, empty but for its configuration; a tree of an earlier server's job is gone.

        Raises:
            OSError: The disk is full or not writable.
        """
        shutil.rmtree(self.root, ignore_errors=True)
        folders = [self.config, self.model, self.output_data, self.code, self.checkpoints(request)]
        folders += [self.channel(item["ChannelName"]) for item in request.get("InputDataConfig", [])]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        for name, content in configuration(request).items():
            (self.config / name).write_text(json.dumps(content, indent=1), encoding="utf-8")

    def drop_input(self) -> None:
        """The downloaded data is gone (S3 has it); the rest stays for whoever looks into the job."""
        shutil.rmtree(self.root / "input" / "data", ignore_errors=True)


def configuration(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the files of input/config with their content."""
    return {
        "hyperparameters.json": dict(request.get("HyperParameters", {})),
        "inputdataconfig.json": {
            channel["ChannelName"]: {
                "TrainingInputMode": "File",
                "S3DistributionType": "FullyReplicated",
                "RecordWrapperType": channel.get("RecordWrapperType", "None"),
                "ContentType": channel.get("ContentType"),
            }
            for channel in request.get("InputDataConfig", [])
        },
        "resourceconfig.json": {
            "current_host": HOST,
            "current_instance_type": request["ResourceConfig"].get("InstanceType"),
            "current_group_name": "homogeneousCluster",
            "hosts": [HOST],
            "network_interface_name": "lo",
        },
    }
