"""The work of a processing job: its inputs in, its outputs out."""

import contextlib
import functools
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drydock.errors import FAILURE_REASON_MAX_CHARS, JobFailed, bounded
from drydock.host.executor import Executor
from drydock.host.tree import HostTree
from drydock.jobs.environment import build_common_environment, make_host_context
from drydock.jobs.failure import algorithm_error, said_in
from drydock.jobs.processing.job import ProcessingJob
from drydock.jobs.work import TRANSFER_ERRORS, attempt
from drydock.settings import Settings
from drydock.transfer import channels
from drydock.transfer.checkpoints import CheckpointSync
from drydock.transfer.objects import ObjectStore

log = logging.getLogger(__name__)


class ProcessingWork:
    """One run of one processing job.

    Args:
        job: Its record.
        trees: Its hosts' trees, algo-1 first.
        executor: What runs them.
        settings: The server's settings.
    """

    def __init__(self, job: ProcessingJob, trees: Sequence[HostTree], executor: Executor, settings: Settings) -> None:
        self._job, self._trees, self._executor, self._settings = job, trees, executor, settings
        self._store = ObjectStore(settings.objects_url, job.account_id, job.region, settings.s3_patience_s)
        self._continuous = [
            CheckpointSync(tree.at(one["LocalPath"]), one["S3Uri"], self._store, settings.checkpoint_interval_s)
            for one in self._outputs
            if one["S3UploadMode"] == "Continuous"
            for tree in trees
        ]

    def create(self) -> None:
        """The trees are there, empty but for their configuration."""
        for tree in self._trees:
            places = [one["LocalPath"] for one in (*self._inputs, *self._outputs)]
            tree.create([tree.root / "config", tree.output, *map(tree.at, places)])
            resources = {"current_host": tree.host, "hosts": [one.host for one in self._trees]}
            for name, content in (("processingjobconfig", self._configuration()), ("resourceconfig", resources)):
                (tree.root / "config" / f"{name}.json").write_text(json.dumps(content, indent=1), encoding="utf-8")

    def download(self) -> None:
        """The inputs are in the trees.

        Raises:
            JobFailed: An input is empty, or cannot be had.
        """
        for one in self._inputs:
            for number, tree in enumerate(self._trees):
                self._download_input(one, number, tree)

    def command(self, tree: HostTree) -> list[str]:
        """Return the ContainerEntrypoint with its arguments; [] for the image's own."""
        specification = self._job.request["AppSpecification"]
        if "ContainerEntrypoint" not in specification:
            return []
        return [*specification["ContainerEntrypoint"], *specification.get("ContainerArguments", [])]

    def environment(self, tree: HostTree) -> dict[str, str]:
        """Return a host's whole environment."""
        place = make_host_context(self._job, tree, self._executor, self._settings)
        own = {"SAGEMAKER_BASE_DIR": place.base, "PROCESSING_JOB_NAME": self._job.name}
        return {**build_common_environment(self._job.region, place), **own, **self._job.request.get("Environment", {})}

    def cwd(self, tree: HostTree) -> Path:
        """Return the tree's root."""
        return tree.root

    def read(self, line: str) -> None:
        """Processing jobs have no metrics."""

    def tick(self) -> None:
        """The outputs that are uploaded continuously are, when it is time."""
        for sync in self._continuous:
            with contextlib.suppress(*TRANSFER_ERRORS):  # the next copy takes up what is missing
                sync.copy_if_due()

    def leave(self) -> None:
        """Nothing is kept of an unfinished processing job."""

    def deliver(self) -> Sequence[str]:
        """The outputs are in S3.

        Raises:
            JobFailed: S3 does not take one.
        """
        self._read_message()
        for one in self._outputs:
            for tree in self._trees:
                folder, what = tree.at(one["LocalPath"]), f"Artifact upload failed: {one['S3Uri']}"
                attempt(what, functools.partial(tree.restore, folder))
                attempt(what, functools.partial(self._store.upload_folder, folder, one["S3Uri"]))
        return []

    def fail(self, exit_code: int, last_lines: Sequence[str], command: Sequence[str]) -> str:
        """Returns why the command failed; /opt/ml/output/message is the ExitMessage."""
        self._read_message()
        return algorithm_error(exit_code, self._trees[0].output / "message", last_lines, command)

    def _read_message(self) -> None:
        said = said_in(self._trees[0].output / "message")
        self._job.record.message = bounded(said, FAILURE_REASON_MAX_CHARS) or None

    @property
    def _inputs(self) -> list[dict[str, Any]]:
        given = self._job.request.get("ProcessingInputs", [])
        return [{**one["S3Input"], "InputName": one["InputName"]} for one in given if "S3Input" in one]

    @property
    def _outputs(self) -> list[dict[str, Any]]:
        given = self._job.request.get("ProcessingOutputConfig", {}).get("Outputs", [])
        return [one["S3Output"] for one in given if "S3Output" in one]

    def _configuration(self) -> Mapping[str, Any]:
        return {"ProcessingJobArn": self._job.arn, **self._job.request}

    def _download_input(self, one: Mapping[str, Any], number: int, tree: HostTree) -> None:
        uri, what = one["S3Uri"], f"Data download failed: input {one['InputName']}"

        def fetch() -> int:
            return channels.download_source(
                self._store,
                uri=uri,
                data_type=one["S3DataType"],
                distribution=one.get("S3DataDistributionType", "FullyReplicated"),
                folder=tree.at(one["LocalPath"]),
                host_number=number,
                host_count=len(self._trees),
            )

        if not attempt(f"{what}: {uri}", fetch):
            raise JobFailed(f'ClientError: {what}: No S3 objects found under S3 URL "{uri}"')
