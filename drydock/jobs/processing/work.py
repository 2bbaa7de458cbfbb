"""Do the work of a processing job: download its inputs, and upload its outputs."""

import contextlib
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drydock.errors import FAILURE_REASON_MAX_CHARS, RunFailed, truncate
from drydock.host.executor import Executor
from drydock.host.tree import HostTree
from drydock.jobs.environment import build_common_environment, make_host_context
from drydock.jobs.failure import describe_algorithm_error, read_beginning
from drydock.jobs.processing.job import ProcessingJob
from drydock.jobs.work import TRANSFER_ERRORS, run_transfer
from drydock.settings import Settings
from drydock.transfer import channels
from drydock.transfer.checkpoints import CheckpointSync
from drydock.transfer.objects import ObjectStore


class ProcessingWork:
    """The work of one run of a processing job; `jobs.work.Work` describes the methods.

    Args:
        job: The processing job.
        trees: The folder trees of the job's hosts, algo-1 first.
        executor: Runs the hosts.
        settings: The server's settings.
    """

    def __init__(self, job: ProcessingJob, trees: Sequence[HostTree], executor: Executor, settings: Settings) -> None:
        self._job, self._trees, self._executor, self._settings = job, trees, executor, settings
        self._object_store = ObjectStore(settings.objects_url, job.account_id, job.region, settings.s3_retry_s)
        self._continuous_syncs = [
            CheckpointSync(
                tree.get_local_path(output["LocalPath"]),
                output["S3Uri"],
                self._object_store,
                settings.checkpoint_interval_s,
            )
            for output in self._outputs
            if output["S3UploadMode"] == "Continuous"
            for tree in trees
        ]

    def create_trees(self) -> None:
        """Create the folder trees, with the folders of the inputs and outputs and the configuration files."""
        for tree in self._trees:
            paths = [entry["LocalPath"] for entry in (*self._inputs, *self._outputs)]
            tree.create([tree.root / "config", tree.output, *map(tree.get_local_path, paths)])
            resource_config = {"current_host": tree.host, "hosts": [host_tree.host for host_tree in self._trees]}
            request = {"ProcessingJobArn": self._job.arn, **self._job.request}
            for name, content in (("processingjobconfig", request), ("resourceconfig", resource_config)):
                (tree.root / "config" / f"{name}.json").write_text(json.dumps(content, indent=1), encoding="utf-8")

    def download(self) -> None:
        """Download the inputs into the trees.

        Raises:
            RunFailed: An input is empty, or cannot be downloaded.
        """
        for source in self._inputs:
            for host_number, tree in enumerate(self._trees):
                self._download_input(source, host_number, tree)

    def build_command(self, tree: HostTree) -> list[str]:
        """Return the ContainerEntrypoint with its arguments; [] if the image has the entrypoint."""
        specification = self._job.request["AppSpecification"]
        if "ContainerEntrypoint" not in specification:
            return []
        return [*specification["ContainerEntrypoint"], *specification.get("ContainerArguments", [])]

    def build_environment(self, tree: HostTree) -> dict[str, str]:
        """Return all environment variables of a host's program."""
        context = make_host_context(self._job, tree, self._executor, self._settings)
        job_variables = {"SAGEMAKER_BASE_DIR": context.base, "PROCESSING_JOB_NAME": self._job.name}
        common_variables = build_common_environment(self._job.region, context)
        return {**common_variables, **job_variables, **self._job.request.get("Environment", {})}

    def get_working_folder(self, tree: HostTree) -> Path:
        """Return the tree's root."""
        return tree.root

    def sync(self) -> None:
        """Upload the outputs with S3UploadMode Continuous, if an upload is due."""
        for sync in self._continuous_syncs:
            with contextlib.suppress(*TRANSFER_ERRORS):  # the next upload includes what is missing
                sync.upload_if_due()

    def save_progress(self, exit_code: int) -> None:
        """Do nothing: a processing job is not resumed, since it never runs on spot instances."""

    def upload_results(self, exit_code: int) -> Sequence[str]:
        """Set the ExitMessage from /opt/ml/output/message, and upload the outputs.

        Raises:
            RunFailed: S3 does not accept an output.
        """
        self._set_exit_message()
        for output in self._outputs:
            for tree in self._trees:
                folder = tree.get_local_path(output["LocalPath"])
                description = f"Artifact upload failed: {output['S3Uri']}"
                run_transfer(description, functools.partial(tree.recreate_folder, folder))
                run_transfer(description, functools.partial(self._object_store.upload_folder, folder, output["S3Uri"]))
        return []

    def handle_failure(self, exit_code: int, host: str, log_end: str, command: Sequence[str]) -> str:
        """Set the ExitMessage from /opt/ml/output/message, and return the job's FailureReason."""
        self._set_exit_message()
        return describe_algorithm_error(exit_code, self._trees, host, log_end, command, message_file="message")

    def _set_exit_message(self) -> None:
        message = read_beginning(self._trees[0].output / "message")
        self._job.record.message = truncate(message, FAILURE_REASON_MAX_CHARS) or None

    @property
    def _inputs(self) -> list[dict[str, Any]]:
        entries = self._job.request.get("ProcessingInputs", [])
        return [{**entry["S3Input"], "InputName": entry["InputName"]} for entry in entries if "S3Input" in entry]

    @property
    def _outputs(self) -> list[dict[str, Any]]:
        entries = self._job.request.get("ProcessingOutputConfig", {}).get("Outputs", [])
        return [entry["S3Output"] for entry in entries if "S3Output" in entry]

    def _download_input(self, source: Mapping[str, Any], host_number: int, tree: HostTree) -> None:
        uri, description = source["S3Uri"], f"Data download failed: input {source['InputName']}"
        distribution = source.get("S3DataDistributionType", "FullyReplicated")

        def download() -> int:
            return channels.download_source(
                self._object_store,
                channels.Source(uri, source["S3DataType"], distribution),
                tree.get_local_path(source["LocalPath"]),
                host_number=host_number,
                host_count=len(self._trees),
            )

        if not run_transfer(f"{description}: {uri}", download):
            raise RunFailed(f'ClientError: {description}: No S3 objects found under S3 URL "{uri}"')
