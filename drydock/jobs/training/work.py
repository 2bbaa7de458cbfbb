"""Do the work of a training job: download channels, code and checkpoints; upload model, output and checkpoints."""

import contextlib
import functools
import json
import logging
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from drydock.errors import RunFailed
from drydock.host.addresses import choose_addresses
from drydock.host.executor import Executor
from drydock.host.hyperparameters import build_script_arguments, decode_hyperparameters
from drydock.host.requirements import check_requirements
from drydock.host.tree import HostTree
from drydock.jobs.environment import HostContext, make_host_context
from drydock.jobs.failure import describe_algorithm_error
from drydock.jobs.training.distribution import LaunchContext, build_launch_command
from drydock.jobs.training.environment import build_config_files, build_environment
from drydock.jobs.training.job import TrainingJob
from drydock.jobs.work import TRANSFER_ERRORS, run_transfer
from drydock.settings import Settings
from drydock.transfer import archive, channels
from drydock.transfer.checkpoints import CheckpointSync
from drydock.transfer.objects import ObjectStore, join_uri

log = logging.getLogger(__name__)

# The exit code of a command that signal N ended is this number + N.
SIGNAL_EXIT_CODE_BASE = 128


class TrainingWork:
    """The work of one run of a training job; `jobs.work.Work` describes the methods.

    Args:
        job: The training job.
        trees: The folder trees of the job's hosts, algo-1 first.
        executor: Runs the hosts.
        settings: The server's settings.
    """

    def __init__(self, job: TrainingJob, trees: Sequence[HostTree], executor: Executor, settings: Settings) -> None:
        self._job, self._trees, self._executor, self._settings = job, trees, executor, settings
        self._object_store = ObjectStore(settings.objects_url, job.account_id, job.region, settings.s3_retry_s)
        self._checkpoint_syncs: list[CheckpointSync] = []
        if "CheckpointConfig" in job.request:
            uri, interval_s = job.request["CheckpointConfig"]["S3Uri"], settings.checkpoint_interval_s
            self._checkpoint_syncs = [
                CheckpointSync(self._get_checkpoint_folder(tree), uri, self._object_store, interval_s) for tree in trees
            ]

    def create_trees(self) -> None:
        """Create the folder trees, with all folders of /opt/ml and the files of input/config."""
        channel_names = [channel["ChannelName"] for channel in self._channels]
        shutil.rmtree(self._get_mpi_folder(), ignore_errors=True)
        for tree in self._trees:
            folders = [tree.config, tree.model, tree.output_data, tree.code, self._get_checkpoint_folder(tree)]
            tree.create([*folders, *map(tree.get_channel_folder, channel_names)])
            for name, content in build_config_files(self._job, self._build_host_context(tree)).items():
                (tree.config / name).write_text(json.dumps(content, indent=1), encoding="utf-8")

    def download(self) -> None:
        """Download the channels, the code and the checkpoints into the trees.

        Raises:
            RunFailed: A channel is empty, a download failed, the output bucket is missing, or a package of
                requirements.txt is not installed.
        """
        output_uri = self._job.request["OutputDataConfig"]["S3OutputPath"]
        # The bucket is checked first: without it, the model could not be uploaded after the training.
        run_transfer(f"Artifact upload failed: {output_uri}", lambda: self._object_store.check_bucket(output_uri))
        for host_number, tree in enumerate(self._trees):
            for channel in self._channels:
                self._download_channel(channel, host_number, tree)
            self._download_code(tree)
        for sync in self._checkpoint_syncs:
            uri = self._job.request["CheckpointConfig"]["S3Uri"]
            count = run_transfer(f"Data download failed: checkpoints: {uri}", sync.download)
            log.info("job %s: downloaded %d checkpoint files from %s", self._job.name, count, uri)

    def build_command(self, tree: HostTree) -> list[str]:
        """Return the ContainerEntrypoint, or else the script, with its arguments; [] if the image has the entrypoint.

        Raises:
            RunFailed: The script is not in the source bundle, or the program that distributes it (torchrun or mpirun)
                cannot be used.
        """
        algorithm = self._job.request["AlgorithmSpecification"]
        if "ContainerEntrypoint" in algorithm:
            return [*algorithm["ContainerEntrypoint"], *algorithm.get("ContainerArguments", [])]
        if not self._is_script_mode:
            return []
        program = str(self._get_toolkit_setting("sagemaker_program"))
        script = (tree.code / program).resolve()
        if not script.is_relative_to(tree.code.resolve()) or not script.is_file():
            raise RunFailed(f"AlgorithmError: ImportModuleError: no file {program} in sagemaker_submit_directory")
        interpreter = "/bin/sh" if script.suffix == ".sh" else self._executor.get_interpreter()
        command = [interpreter, program, *build_script_arguments(self._job.request)]
        path = self.build_environment(tree).get("PATH", "")
        return build_launch_command(self._job.request, self._plan_launch(tree), command, path)

    def build_environment(self, tree: HostTree) -> dict[str, str]:
        """Return all environment variables of a host's program."""
        return build_environment(self._job, self._build_host_context(tree))

    def get_working_folder(self, tree: HostTree) -> Path:
        """Return the folder of the code."""
        return tree.code

    def sync(self) -> None:
        """Upload new checkpoints, if an upload is due."""
        self._upload_checkpoints(lambda sync: sync.upload_if_due())

    def save_progress(self, exit_code: int) -> None:
        """Upload the checkpoints, except files that the script was writing when a signal ended it."""
        self._upload_checkpoints(lambda sync: sync.upload_last_changes(was_killed=exit_code > SIGNAL_EXIT_CODE_BASE))

    def upload_results(self, exit_code: int) -> Sequence[str]:
        """Upload the checkpoints, the output and the model. Return lines to add to the job's log.

        Raises:
            RunFailed: S3 does not accept the output or the model.
        """
        self.save_progress(exit_code)
        lines = self._upload_output()
        model, omitted_names = self._merge_folders("model")
        lines += _describe_omitted("model.tar.gz", omitted_names)
        if archive.is_empty(model):
            lines.append("No model artifact is saved under path /opt/ml/model.")
        lines += self._upload_model(model)
        return lines

    def handle_failure(self, exit_code: int, host: str, log_end: str, command: Sequence[str]) -> str:
        """Upload the checkpoints and the output, and return the job's FailureReason, even if the upload fails."""
        self.save_progress(exit_code)
        with contextlib.suppress(RunFailed):
            self._upload_output()
        return describe_algorithm_error(exit_code, self._trees, host, log_end, command)

    @property
    def _channels(self) -> Sequence[Mapping[str, Any]]:
        channel_list: Sequence[Mapping[str, Any]] = self._job.request.get("InputDataConfig", [])
        return channel_list

    @property
    def _is_script_mode(self) -> bool:
        hyperparameters = self._job.request.get("HyperParameters", {})
        return "sagemaker_program" in hyperparameters and "sagemaker_submit_directory" in hyperparameters

    def _get_toolkit_setting(self, name: str) -> Any:
        return decode_hyperparameters(self._job.request, include_toolkit_settings=True)[name]

    def _plan_launch(self, tree: HostTree) -> LaunchContext:
        hosts = [host_tree.host for host_tree in self._trees]
        # Where /etc/hosts lacks the hosts' names, `host_names.sitecustomize` resolves them, but only for Python code.
        # Code in other languages needs an address.
        addresses = choose_addresses(self._job.arn, hosts)
        master = hosts[0] if self._executor.has_opt_ml else addresses[hosts[0]]
        folder = self._get_mpi_folder().resolve()
        return LaunchContext(hosts, tree.host, master, self._job.arn, folder, self._executor.is_container)

    def _get_mpi_folder(self) -> Path:
        """Return the folder in which mpirun passes commands to the other hosts."""
        return self._trees[0].root.with_name("mpi")

    def _build_host_context(self, tree: HostTree) -> HostContext:
        return make_host_context(self._job, tree, self._executor, self._settings)

    def _get_checkpoint_folder(self, tree: HostTree) -> Path:
        return tree.get_local_path(
            self._job.request.get("CheckpointConfig", {}).get("LocalPath", "/opt/ml/checkpoints")
        )

    def _download_channel(self, channel: Mapping[str, Any], host_number: int, tree: HostTree) -> None:
        name, uri = channel["ChannelName"], channel["DataSource"]["S3DataSource"]["S3Uri"]
        mode = self._job.request["AlgorithmSpecification"]["TrainingInputMode"]

        def download() -> int:
            return channels.download_channel(
                self._object_store,
                channel,
                tree.get_channel_folder(name),
                host_number=host_number,
                host_count=len(self._trees),
                default_mode=mode,
            )

        if not run_transfer(f"Data download failed: channel {name}: {uri}", download):
            problem = f'channel {name}: No S3 objects found under S3 URL "{uri}"'
            raise RunFailed(f"ClientError: Data download failed: {problem}")

    def _download_code(self, tree: HostTree) -> None:
        if not self._is_script_mode or "ContainerEntrypoint" in self._job.request["AlgorithmSpecification"]:
            return
        uri = str(self._get_toolkit_setting("sagemaker_submit_directory"))
        bundle = tree.root / "sourcedir.tar.gz"
        description = f"Data download failed: sagemaker_submit_directory: {uri}"
        run_transfer(description, lambda: self._object_store.download(uri, bundle))
        run_transfer(description, lambda: archive.unpack(bundle, tree.code))
        if not self._executor.is_container:
            check_requirements(tree.code / "requirements.txt")

    def _upload_checkpoints(self, upload: Callable[[CheckpointSync], None]) -> None:
        # Without a CheckpointConfig, there is nothing to upload, so the second list is empty.
        for tree, sync in zip(self._trees, self._checkpoint_syncs, strict=False):
            if not tree.contains(self._get_checkpoint_folder(tree)):
                continue  # the job has replaced the folder with a link to files that are not its own
            try:
                upload(sync)
            except TRANSFER_ERRORS as error:  # the training continues; the next upload includes what is missing
                log.warning("job %s: cannot upload the checkpoints: %s", self._job.name, error)

    def _merge_folders(self, name: str) -> tuple[Path, list[str]]:
        """Return one folder that has the files of all hosts: those of the folder `name` in each tree.

        If several hosts have a file of the same name, the file of the first of these hosts is used. Also return the
        names of the entries that were omitted because they cannot be copied; none if there is only one host.
        """
        description = "Artifact upload failed"
        for tree in self._trees:
            run_transfer(description, functools.partial(tree.recreate_folder, tree.root / name))
        if len(self._trees) == 1:
            return self._trees[0].root / name, []
        merged_folder = self._trees[0].root.with_name("merged") / name
        folders = [tree.root / name for tree in self._trees]
        return merged_folder, run_transfer(description, lambda: archive.merge(folders, merged_folder))

    def _upload_output(self) -> list[str]:
        folder, omitted_names = self._merge_folders("output/data")
        lines = _describe_omitted("output.tar.gz", omitted_names)
        return lines if archive.is_empty(folder) else lines + self._upload_archive(folder, "output.tar.gz")

    def _upload_model(self, folder: Path) -> list[str]:
        if self._job.request["OutputDataConfig"].get("CompressionType", "GZIP") == "NONE":
            model_uri = self._build_artifact_uri("model/")
            run_transfer("Artifact upload failed: model", lambda: self._object_store.upload_folder(folder, model_uri))
            self._job.set_model_uri(model_uri)
            return []
        lines = [] if archive.is_empty(folder) else self._upload_archive(folder, "model.tar.gz")
        self._job.set_model_uri(self._build_artifact_uri("model.tar.gz"))
        return lines

    def _upload_archive(self, folder: Path, name: str) -> list[str]:
        archive_file = self._trees[0].root.with_name(name)

        def upload() -> list[str]:
            try:
                omitted_names = archive.pack(folder, archive_file)
                self._object_store.upload(archive_file, self._build_artifact_uri(name))
            finally:
                archive_file.unlink(missing_ok=True)
            return _describe_omitted(name, omitted_names)

        return run_transfer(f"Artifact upload failed: {name}", upload)

    def _build_artifact_uri(self, name: str) -> str:
        return join_uri(self._job.request["OutputDataConfig"]["S3OutputPath"], self._job.name, "output", name)


def _describe_omitted(archive_name: str, names: Iterable[str]) -> list[str]:
    """Return a line of the job's log for each entry of a folder that is not in the archive."""
    return [
        f"not in {archive_name}: {name} is a special file, or a link that leads out of the folder" for name in names
    ]
