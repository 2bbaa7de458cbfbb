"""Make a tiny language model, its tokenizer and documents, and run the template on one host or on several."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.code_files import locate_bundle
from tests.tools.language_model import HYPERPARAMETERS, REASON, ROOT, TEMPLATE, write_base_model, write_documents
from tests.tools.script_processes import ScriptProcess

for name in ("torch", "transformers", "peft"):
    pytest.importorskip(name, reason=REASON)


@pytest.fixture(scope="session")
def base_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a model with random weights and its tokenizer."""
    return write_base_model(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a channel with texts, and prompts with completions."""
    return write_documents(tmp_path_factory.mktemp("train"))


@pytest.fixture(scope="session")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the script in a folder with the files of its bundle and nothing else, as in a job."""
    folder = tmp_path_factory.mktemp("code")
    shutil.copy(TEMPLATE / "train.py", folder)
    for name, path in locate_bundle(TEMPLATE / "bundle.txt", ROOT).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / name)
    return folder / "train.py"


class Job:
    """A training job on some hosts with one process each. All hosts share the checkpoints that are in S3.

    Args:
        folder: folder of the job.
        script: the script.
        channels: name to folder of each channel.
        find_port: returns a free port.
    """

    def __init__(self, folder: Path, script: Path, channels: dict[str, Path], find_port: Callable[[], int]) -> None:
        self.folder, self.script, self.channels, self._find_port = folder, script, channels, find_port
        self.processes: list[ScriptProcess] = []
        self.host_channels: dict[int, dict[str, Path]] = {}
        """Channels of a host that differ from those of the others."""

    def start(self, count: int = 1, is_paced: bool = False, **hyperparameters: Any) -> list[ScriptProcess]:
        """Start the script on each host, in new folders with the checkpoints of S3."""
        self._restore_checkpoints(count)
        port = self._find_port()
        values = {**HYPERPARAMETERS, **hyperparameters}
        arguments = [argument for name, value in values.items() for argument in (f"--{name}", str(value))]
        self.processes = [
            ScriptProcess(
                self.script,
                arguments,
                self._list_variables(rank, count, port),
                self.folder / f"log-{rank}",
                is_paced=is_paced and rank == 0,
            )
            for rank in range(count)
        ]
        return self.processes

    def wait(self) -> tuple[list[int], str]:
        """Wait for all hosts; copy their checkpoints to S3, and return the exit codes and the outputs."""
        ends = [process.wait() for process in self.processes]
        for checkpoints in sorted(self.folder.glob("host-*/checkpoints")):
            shutil.copytree(checkpoints, self.folder / "s3", dirs_exist_ok=True)
        return [code for code, _ in ends], "".join(text for _, text in ends)

    def run(self, count: int = 1, **hyperparameters: Any) -> str:
        """Run the job to its end without an error, and return the outputs."""
        self.start(count, **hyperparameters)
        codes, log = self.wait()
        assert codes == [0] * count, log[-3_000:]
        return log

    def read_weights(self) -> dict[str, Any]:
        """Return the weights that the first host wrote, of the adapter or the model."""
        from safetensors.torch import load_file

        (path,) = (self.folder / "host-0/model").glob("*.safetensors")
        return load_file(path)

    def read_losses(self) -> list[float]:
        """Return the loss of each step."""
        with (self.folder / "host-0/output/data/rounds.csv").open() as file:
            return [float(row["loss"]) for row in csv.DictReader(file)]

    def read_failure(self, rank: int = 0) -> str:
        """Return the reason that SageMaker would show."""
        return (self.folder / f"host-{rank}/output/failure").read_text()

    def _restore_checkpoints(self, count: int) -> None:
        for path in self.folder.glob("host-*"):
            shutil.rmtree(path)
        for rank in range(count):
            (self.folder / f"host-{rank}/output").mkdir(parents=True)
            if (self.folder / "s3").is_dir():
                shutil.copytree(self.folder / "s3", self.folder / f"host-{rank}/checkpoints")

    def _list_variables(self, rank: int, count: int, port: int) -> dict[str, str]:
        hosts = [f"algo-{number + 1}" for number in range(count)]
        variables = {"SAGEMAKER_BASE_DIR": str(self.folder / f"host-{rank}"), "SM_HOSTS": json.dumps(hosts)}
        channels = {**self.channels, **self.host_channels.get(rank, {})}
        variables |= {f"SM_CHANNEL_{name.upper()}": str(path) for name, path in channels.items()}
        if count > 1:
            variables |= {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
            variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        return variables


@pytest.fixture
def make_job(
    tmp_path: Path, script: Path, base_model: Path, documents: Path, free_port: Callable[[], int]
) -> Iterator[Callable[..., Job]]:
    """Return the function that makes a job in a folder of that name; its processes end with the test."""
    jobs: list[Job] = []

    def make(name: str, **channels: Path) -> Job:
        folder = tmp_path / name
        folder.mkdir()
        jobs.append(Job(folder, script, {"model": base_model, "train": documents, **channels}, free_port))
        return jobs[-1]

    yield make
    for job in jobs:
        for process in job.processes:
            process.end()


@pytest.fixture(scope="session")
def run_straight(
    tmp_path_factory: pytest.TempPathFactory,
    script: Path,
    base_model: Path,
    documents: Path,
    free_port: Callable[[], int],
) -> Callable[..., Job]:
    """Return the function that runs a job without interruptions; the same one only once."""
    jobs: dict[str, Job] = {}

    def run(count: int, **hyperparameters: Any) -> Job:
        key = json.dumps([count, hyperparameters])
        if key not in jobs:
            folder = tmp_path_factory.mktemp("straight")
            jobs[key] = Job(folder, script, {"model": base_model, "train": documents}, free_port)
            jobs[key].run(count, **hyperparameters)
        return jobs[key]

    return run
