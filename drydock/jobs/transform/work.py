"""Do the work of a transform job: download the model and the input, run the model, and upload its responses."""

import contextlib
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drydock.errors import RunFailed
from drydock.host.executor import Executor
from drydock.host.programs import copy_program
from drydock.host.requirements import check_requirements
from drydock.host.tree import HostTree
from drydock.jobs.environment import build_common_environment, make_host_context
from drydock.jobs.failure import describe_algorithm_error, read_beginning
from drydock.jobs.states import Status
from drydock.jobs.transform import inference
from drydock.jobs.transform.job import TransformJob
from drydock.jobs.work import run_transfer
from drydock.settings import Settings
from drydock.transfer import archive, channels
from drydock.transfer.objects import ObjectStore

INPUT_CHANNEL = "transform"
"""Name of the channel with the objects to transform."""


class TransformWork:
    """The work of one run of a transform job; `jobs.work.Work` describes the methods.

    Args:
        job: The transform job.
        trees: The folder trees of the job's hosts, algo-1 first.
        executor: Runs the hosts.
        settings: The server's settings.
    """

    def __init__(self, job: TransformJob, trees: Sequence[HostTree], executor: Executor, settings: Settings) -> None:
        self._job, self._trees, self._executor, self._settings = job, trees, executor, settings
        self._object_store = ObjectStore(settings.objects_url, job.account_id, job.region, settings.s3_retry_s)

    def create_trees(self) -> None:
        """Create the trees, each with the inference program and its options."""
        for tree in self._trees:
            tree.create([tree.model, tree.output_data, tree.code, tree.get_channel_folder(INPUT_CHANNEL)])
            copy_program(inference, tree.code, inference.PROGRAM_FILE)
            (tree.code / inference.OPTIONS_FILE).write_text(json.dumps(self._build_options()), encoding="utf-8")

    def download(self) -> None:
        """Download the model and the input into the trees.

        Raises:
            RunFailed: There is no input, the model or the input cannot be downloaded, the output bucket is missing, or
                a package of the model's requirements.txt is not installed.
        """
        output_uri = self._job.request["TransformOutput"]["S3OutputPath"]
        run_transfer(f"Artifact upload failed: {output_uri}", lambda: self._object_store.check_bucket(output_uri))
        for host_number, tree in enumerate(self._trees):
            self._download_model(tree)
            self._download_input(host_number, tree)

    def build_command(self, tree: HostTree) -> list[str]:
        """Return the command of the inference program."""
        return [
            self._executor.get_interpreter(),
            str(Path(self._executor.get_path_in_job(tree.root)) / "code" / inference.PROGRAM_FILE),
        ]

    def build_environment(self, tree: HostTree) -> dict[str, str]:
        """Return all environment variables of a host's program."""
        job, context = self._job, make_host_context(self._job, tree, self._executor, self._settings)
        options = {
            "SAGEMAKER_BASE_DIR": context.base,
            "SM_MODEL_DIR": f"{context.base}/model",
            "SAGEMAKER_PROGRAM": "inference.py",
            "SAGEMAKER_BATCH": "true",
            "SAGEMAKER_MAX_PAYLOAD_IN_MB": str(job.max_payload_mb),
            "SAGEMAKER_BATCH_STRATEGY": job.request.get("BatchStrategy", "MultiRecord"),
            "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": str(job.request.get("MaxConcurrentTransforms", 1)),
        }
        request_variables = {**job.container.get("Environment", {}), **job.request.get("Environment", {})}
        return {**build_common_environment(job.region, context), **options, **request_variables}

    def get_working_folder(self, tree: HostTree) -> Path:
        """Return the model's folder."""
        return tree.model

    def sync(self) -> None:
        """Do nothing: nothing is uploaded before the job's end."""

    def save_progress(self, exit_code: int) -> None:
        """Do nothing: a transform job is not resumed, since it never runs on spot instances."""

    def upload_results(self, exit_code: int) -> Sequence[str]:
        """Upload the model's responses. A job that was stopped uploads none, as on SageMaker.

        Raises:
            RunFailed: S3 does not accept the upload, or an object has no output.
        """
        if self._job.status is not Status.STOPPING:
            self._upload()
            self._check_outputs()
        return []

    def handle_failure(self, exit_code: int, host: str, log_end: str, command: Sequence[str]) -> str:
        """Upload the complete responses, as SageMaker does, and return the job's FailureReason."""
        with contextlib.suppress(RunFailed):  # the program's failure is reported, not a failure of the upload
            self._upload()
        failure_files = [tree.output / "failure" for tree in self._trees]
        message = next((text for path in failure_files if (text := read_beginning(path))), "")
        if exit_code == inference.EXIT_BAD_INPUT and message:
            return f"ClientError: {message}"
        return describe_algorithm_error(exit_code, self._trees, host, log_end, command)

    def _upload(self) -> None:
        """Upload the outputs of all hosts. If the model has deleted an output folder, create an empty one first."""
        uri = self._job.request["TransformOutput"]["S3OutputPath"]
        description = f"Artifact upload failed: {uri}"
        for tree in self._trees:
            run_transfer(description, functools.partial(tree.recreate_folder, tree.output_data))
            run_transfer(description, functools.partial(self._object_store.upload_folder, tree.output_data, uri))

    def _check_outputs(self) -> None:
        """Check that each input object has its output: code that calls `os._exit(0)` ends the program too early."""
        for tree in self._trees:
            input_folder = tree.get_channel_folder(INPUT_CHANNEL)
            for name in sorted(path.relative_to(input_folder) for path in input_folder.rglob("*") if path.is_file()):
                if not (tree.output_data / inference.build_output_name(name)).is_file():
                    raise RunFailed(f"AlgorithmError: the program ended with exit code 0 and no output for {name}")

    def _build_options(self) -> Mapping[str, Any]:
        """Return the options of the inference program."""
        transform_input, output = self._job.request["TransformInput"], self._job.request["TransformOutput"]
        return {
            "content_type": transform_input.get("ContentType") or inference.DEFAULT_TYPE,
            "accept": output.get("Accept") or inference.DEFAULT_TYPE,
            "splits_by_line": transform_input.get("SplitType", "None") == "Line",
            "has_single_records": self._job.request.get("BatchStrategy", "MultiRecord") == "SingleRecord",
            "is_gzip": transform_input.get("CompressionType", "None") == "Gzip",
            "joins_with_newline": output.get("AssembleWith", "None") == "Line",
            "max_bytes": self._job.max_payload_mb << 20,
        }

    def _download_model(self, tree: HostTree) -> None:
        uri, archive_file = self._job.model_data_uri, tree.root / "model.tar.gz"
        description = f"Data download failed: model data: {uri}"
        run_transfer(description, lambda: self._object_store.download(uri, archive_file))
        run_transfer(description, lambda: archive.unpack(archive_file, tree.model))
        archive_file.unlink()
        if not self._executor.is_container:
            check_requirements(tree.model / "code" / "requirements.txt")

    def _download_input(self, host_number: int, tree: HostTree) -> None:
        source = self._job.request["TransformInput"]["DataSource"]["S3DataSource"]

        def download() -> int:
            return channels.download_source(
                self._object_store,
                channels.Source(source["S3Uri"], source["S3DataType"], "ShardedByS3Key"),
                tree.get_channel_folder(INPUT_CHANNEL),
                host_number=host_number,
                host_count=len(self._trees),
            )

        description = f"Data download failed: {source['S3Uri']}"
        if not run_transfer(description, download):
            raise RunFailed(f'ClientError: {description}: No S3 objects found under S3 URL "{source["S3Uri"]}"')
