"""The work of a training job: channels, code and checkpoints in; model, output and checkpoints out."""

import contextlib
import functools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from drydock.errors import JobFailed
from drydock.host.executor import Executor
from drydock.host.hyperparameters import decode_hyperparameters, script_arguments
from drydock.host.requirements import require
from drydock.host.tree import HostTree
from drydock.jobs.environment import HostContext, make_host_context
from drydock.jobs.failure import algorithm_error
from drydock.jobs.metrics import FinalMetrics
from drydock.jobs.training.environment import build_config_files, build_environment
from drydock.jobs.training.job import TrainingJob
from drydock.jobs.work import TRANSFER_ERRORS, attempt
from drydock.settings import Settings
from drydock.transfer import archive, channels
from drydock.transfer.checkpoints import CheckpointSync
from drydock.transfer.objects import ObjectStore, join_uri

log = logging.getLogger(__name__)


class TrainingWork:
    """One run of one training job.

    Args:
        job: Its record.
        trees: Its hosts' trees, algo-1 first.
        executor: What runs them.
        settings: The server's settings.
    """

    def __init__(self, job: TrainingJob, trees: Sequence[HostTree], executor: Executor, settings: Settings) -> None:
        self._job, self._trees, self._executor, self._settings = job, trees, executor, settings
        self._store = ObjectStore(settings.objects_url, job.account_id, job.region, settings.s3_patience_s)
        self._checkpoints: list[CheckpointSync] = []
        self._metrics = FinalMetrics(job.request["AlgorithmSpecification"].get("MetricDefinitions", []))
        if "CheckpointConfig" in job.request:
            uri, every_s = job.request["CheckpointConfig"]["S3Uri"], settings.checkpoint_interval_s
            self._checkpoints = [CheckpointSync(self._local(tree), uri, self._store, every_s) for tree in trees]

    def create(self) -> None:
        """The trees are there, empty but for their configuration."""
        names = [channel["ChannelName"] for channel in self._channels]
        for tree in self._trees:
            folders = [tree.config, tree.model, tree.output_data, tree.code, self._local(tree)]
            tree.create([*folders, *map(tree.channel, names)])
            for name, content in build_config_files(self._job, self._context(tree)).items():
                (tree.config / name).write_text(json.dumps(content, indent=1), encoding="utf-8")

    def download(self) -> None:
        """Channels, checkpoints and code are in the trees.

        Raises:
            JobFailed: A channel is empty, or something cannot be had.
        """
        output = self._job.request["OutputDataConfig"]["S3OutputPath"]
        # Found now, and not when the training is done and its model has nowhere to go.
        attempt(f"Artifact upload failed: {output}", lambda: self._store.require_bucket(output))
        for number, tree in enumerate(self._trees):
            for channel in self._channels:
                self._download_channel(channel, number, tree)
            self._download_code(tree)
        for sync in self._checkpoints:
            uri = self._job.request["CheckpointConfig"]["S3Uri"]
            count = attempt(f"Data download failed: checkpoints: {uri}", sync.download)
            log.info("job %s: %d checkpoint files from %s", self._job.name, count, uri)

    def command(self, tree: HostTree) -> list[str]:
        """Return the ContainerEntrypoint if given, else the script, each with its arguments; [] for the image's own.

        Raises:
            JobFailed: The script is not in the source bundle.
        """
        algorithm = self._job.request["AlgorithmSpecification"]
        if "ContainerEntrypoint" in algorithm:
            return [*algorithm["ContainerEntrypoint"], *algorithm.get("ContainerArguments", [])]
        if not self._script_mode:
            return []
        program = str(decode_hyperparameters(self._job.request, with_toolkit=True)["sagemaker_program"])
        script = (tree.code / program).resolve()
        if not script.is_relative_to(tree.code.resolve()) or not script.is_file():
            raise JobFailed(f"AlgorithmError: ImportModuleError: no file {program} in sagemaker_submit_directory")
        interpreter = "/bin/sh" if script.suffix == ".sh" else self._executor.interpreter()
        return [interpreter, program, *script_arguments(self._job.request)]

    def environment(self, tree: HostTree) -> dict[str, str]:
        """Return a host's whole environment."""
        return build_environment(self._job, self._context(tree))

    def cwd(self, tree: HostTree) -> Path:
        """Return the folder of the code."""
        return tree.code

    def read(self, line: str) -> None:
        """The line's metrics are the last ones."""
        self._metrics.read(line)
        self._job.record.metrics = {**self._job.record.metrics, **self._metrics.last}

    def tick(self) -> None:
        """The checkpoints are copied when it is time."""
        self._copy(lambda sync: sync.copy_if_due())

    def leave(self) -> None:
        """The checkpoints are in S3."""
        self._copy(lambda sync: sync.copy(final=True))

    def deliver(self) -> Sequence[str]:
        """Checkpoints, output and model are in S3.

        Raises:
            JobFailed: S3 does not take the output or the model.
        """
        self.leave()
        lines = self._upload("output/data", "output.tar.gz")
        model = self._merged("model")
        if archive.is_empty(model):
            lines.append("No model artifact is saved under path /opt/ml/model.")
        lines += self._upload_model(model)
        return lines

    def fail(self, exit_code: int, last_lines: Sequence[str], command: Sequence[str]) -> str:
        """Checkpoints and output are in S3; returns why the script failed, which counts more than an upload."""
        self.leave()
        with contextlib.suppress(JobFailed):
            self._upload("output/data", "output.tar.gz")
        said = next((tree.output / "failure" for tree in self._trees if (tree.output / "failure").exists()), None)
        return algorithm_error(exit_code, said or self._trees[0].output / "failure", last_lines, command)

    @property
    def _channels(self) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self._job.request.get("InputDataConfig", [])
        return found

    @property
    def _script_mode(self) -> bool:
        given = self._job.request.get("HyperParameters", {})
        return "sagemaker_program" in given and "sagemaker_submit_directory" in given

    def _context(self, tree: HostTree) -> HostContext:
        return make_host_context(self._job, tree, self._executor, self._settings)

    def _local(self, tree: HostTree) -> Path:
        return tree.at(self._job.request.get("CheckpointConfig", {}).get("LocalPath", "/opt/ml/checkpoints"))

    def _download_channel(self, channel: Mapping[str, Any], number: int, tree: HostTree) -> None:
        name, uri = channel["ChannelName"], channel["DataSource"]["S3DataSource"]["S3Uri"]
        what, hosts = f"Data download failed: channel {name}: {uri}", len(self._trees)
        mode = self._job.request["AlgorithmSpecification"]["TrainingInputMode"]

        def fetch() -> int:
            return channels.download(
                self._store, channel, tree.channel(name), host_number=number, host_count=hosts, default_mode=mode
            )

        if not attempt(what, fetch):
            said = f'channel {name}: No S3 objects found under S3 URL "{uri}"'
            raise JobFailed(f"ClientError: Data download failed: {said}")

    def _download_code(self, tree: HostTree) -> None:
        if not self._script_mode or "ContainerEntrypoint" in self._job.request["AlgorithmSpecification"]:
            return
        uri = str(decode_hyperparameters(self._job.request, with_toolkit=True)["sagemaker_submit_directory"])
        bundle = tree.root / "sourcedir.tar.gz"
        what = f"Data download failed: sagemaker_submit_directory: {uri}"
        attempt(what, lambda: self._store.download(uri, bundle))
        attempt(what, lambda: archive.unpack(bundle, tree.code))
        if not self._executor.is_container:
            require(tree.code / "requirements.txt")

    def _copy(self, copy: Callable[[CheckpointSync], None]) -> None:
        for tree, sync in zip(self._trees, self._checkpoints, strict=False):
            if not tree.holds(self._local(tree)):
                continue  # of what the job's link leads to nothing is the job's
            try:
                copy(sync)
            except TRANSFER_ERRORS as error:  # the training goes on; the next copy takes up what is missing
                log.warning("job %s: checkpoints not copied: %s", self._job.name, error)

    def _merged(self, name: str) -> Path:
        """One folder with what all hosts left in theirs; of equal names algo-1's counts."""
        for tree in self._trees:
            attempt("Artifact upload failed", functools.partial(tree.restore, tree.root / name))
        if len(self._trees) == 1:
            return self._trees[0].root / name
        merged = self._trees[0].root.with_name("merged") / name
        attempt("Artifact upload failed", lambda: archive.merge([tree.root / name for tree in self._trees], merged))
        return merged

    def _upload(self, folder: str, name: str) -> list[str]:
        found = self._merged(folder)
        return [] if archive.is_empty(found) else self._pack_and_send(found, name)

    def _upload_model(self, folder: Path) -> list[str]:
        if self._job.request["OutputDataConfig"].get("CompressionType", "GZIP") == "NONE":
            base = self._artifact("model/")
            attempt("Artifact upload failed: model", lambda: self._store.upload_folder(folder, base))
            self._job.has_model(base)
            return []
        lines = [] if archive.is_empty(folder) else self._pack_and_send(folder, "model.tar.gz")
        self._job.has_model(self._artifact("model.tar.gz"))
        return lines

    def _pack_and_send(self, folder: Path, name: str) -> list[str]:
        packed = self._trees[0].root.with_name(name)

        def act() -> list[str]:
            try:
                skipped = archive.pack(folder, packed)
                self._store.upload(packed, self._artifact(name))
            finally:
                packed.unlink(missing_ok=True)
            return [f"not in {name}, since it is no file: {one}" for one in skipped]

        return attempt(f"Artifact upload failed: {name}", act)

    def _artifact(self, name: str) -> str:
        return join_uri(self._job.request["OutputDataConfig"]["S3OutputPath"], self._job.name, "output", name)
