"""The life of one job on this machine: download, train, upload, end."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

from drydock import archive
from drydock.checkpoints import CheckpointSync
from drydock.environment import command, environment, hyperparameters
from drydock.errors import JobFailed
from drydock.failure import algorithm_error
from drydock.job import TrainingJob
from drydock.logs import LogStream, LogTail
from drydock.objects import ObjectStore, join_uri
from drydock.process import ProcessGroup
from drydock.settings import Settings
from drydock.states import Phase, Status
from drydock.supervise import Ending, Why, supervise
from drydock.tree import HOST, JobTree

log = logging.getLogger(__name__)
T = TypeVar("T")

# What a transfer to or from S3 and the disk can raise.
TRANSFER_ERRORS = (ClientError, BotoCoreError, Boto3Error, OSError, ValueError)


class Run:
    """One run of one job, to be called once, in a thread of its own.

    Args:
        job: The job's record; at the end of the run it has ended.
        tree: Where the job's folders go.
        settings: The server's settings.
        closing: Set when the server ends.
    """

    def __init__(self, job: TrainingJob, tree: JobTree, settings: Settings, closing: threading.Event) -> None:
        self._job, self._tree, self._settings, self._closing = job, tree, settings, closing
        stream = LogStream(job.account_id, job.region, f"{job.training_job_name}/{HOST}-{int(time.time())}")
        self._tail = LogTail(tree.log, stream, job.metrics.read)
        self._checkpoints: CheckpointSync | None = None
        self._store: ObjectStore | None = None

    def __call__(self) -> None:
        """The job has ended, whatever happened, and none of its processes is alive."""
        job = self._job
        try:
            self._live()
        except JobFailed as error:
            job.end(Status.FAILED, Phase.FAILED, error.reason)
        except Exception as error:  # a job without an end would keep its clients waiting for ever
            log.exception("job %s: internal error", job.training_job_name)
            job.end(Status.FAILED, Phase.FAILED, f"InternalServerError: {type(error).__name__}: {error}"[:1024])
        finally:
            self._tree.drop_input()
        log.info("job %s ended: %s", job.training_job_name, job.training_job_status)

    def _live(self) -> None:
        job = self._job
        if job.advance(Phase.DOWNLOADING):
            self._download()
            run = command(job.request, self._tree)
            if job.advance(Phase.TRAINING):
                self._finish(self._train(run), run)
        job.complete()

    @property
    def _s3(self) -> ObjectStore:
        if self._store is None:
            self._store = ObjectStore(self._settings.url, self._job.account_id, self._job.region)
        return self._store

    def _download(self) -> None:
        request = self._job.request
        self._attempt("Data download failed: job folder", lambda: self._tree.create(request))
        output = request["OutputDataConfig"]["S3OutputPath"]
        # Found now, and not when the training is done and its model has nowhere to go.
        self._attempt(f"Artifact upload failed: {output}", lambda: self._s3.require_bucket(output))
        for channel in request.get("InputDataConfig", []):
            self._download_channel(channel["ChannelName"], channel["DataSource"]["S3DataSource"]["S3Uri"])
        self._download_checkpoints()
        self._download_code()

    def _download_channel(self, name: str, uri: str) -> None:
        what, folder = f"Data download failed: channel {name}", self._tree.channel(name)
        if not self._attempt(f"{what}: {uri}", lambda: self._s3.download_prefix(uri, folder)):
            raise JobFailed(f'ClientError: {what}: No S3 objects found under S3 URL "{uri}"')

    def _download_checkpoints(self) -> None:
        config = self._job.request.get("CheckpointConfig")
        if config is None:
            return
        sync = CheckpointSync(
            self._tree.checkpoints(self._job.request),
            config["S3Uri"],
            self._s3,
            self._settings.checkpoint_interval_s,
        )
        count = self._attempt(f"Data download failed: checkpoints: {config['S3Uri']}", sync.download)
        log.info("job %s: %d checkpoint files from %s", self._job.training_job_name, count, config["S3Uri"])
        self._checkpoints = sync

    def _download_code(self) -> None:
        uri = hyperparameters(self._job.request).get("sagemaker_submit_directory")
        if uri is None or "ContainerEntrypoint" in self._job.request["AlgorithmSpecification"]:
            return
        bundle = self._tree.root / "sourcedir.tar.gz"
        what = f"Data download failed: sagemaker_submit_directory: {uri}"
        self._attempt(what, lambda: self._s3.download(str(uri), bundle))
        self._attempt(what, lambda: archive.unpack(bundle, self._tree.code))

    def _train(self, run: list[str]) -> Ending:
        job, tree = self._job, self._tree
        url = self._settings.url
        env = environment(job.request, tree, arn=job.arn, region=job.region, url=url, server=os.environ)
        group = ProcessGroup(run, cwd=tree.code, env=env, log=tree.log, note=tree.process_note)
        log.info("job %s: process group %d", job.training_job_name, group.pid)
        try:
            return supervise(job, group, self._settings, self._closing, self._tick)
        finally:
            group.finish()
            self._tail.drain(final=True)

    def _tick(self) -> None:
        self._tail.drain()
        self._copy_checkpoints(lambda sync: sync.copy_if_due())

    def _copy_checkpoints(self, copy: Callable[[CheckpointSync], None]) -> None:
        if self._checkpoints is None:
            return
        try:
            copy(self._checkpoints)
        except TRANSFER_ERRORS as error:  # the training goes on; the next copy takes up what is missing
            log.warning("job %s: checkpoints not copied: %s", self._job.training_job_name, error)

    def _finish(self, ending: Ending, run: list[str]) -> None:
        job = self._job
        if ending.why is Why.SHUTDOWN:
            raise JobFailed("InternalServerError: drydock was shut down while the job ran")
        job.enter(Phase.UPLOADING)
        self._copy_checkpoints(lambda sync: sync.copy())
        if ending.why is Why.EXIT and ending.exit_code != 0:
            with contextlib.suppress(JobFailed):  # why the script failed counts more
                self._upload_output()
            failure = self._tree.output / "failure"
            raise JobFailed(algorithm_error(ending.exit_code, failure, list(self._tail.last_lines), run))
        self._upload_output()
        self._upload_model()
        if ending.why is Why.RUNTIME:
            job.end(Status.STOPPED, Phase.MAX_RUNTIME_EXCEEDED)

    def _upload_output(self) -> None:
        if not archive.is_empty(self._tree.output_data):
            self._upload(self._tree.output_data, "output.tar.gz")

    def _upload_model(self) -> None:
        if archive.is_empty(self._tree.model):
            self._tail.note("No model artifact is saved under path /opt/ml/model.")
        else:
            self._upload(self._tree.model, "model.tar.gz")
        self._job.has_model(self._artifact("model.tar.gz"))

    def _artifact(self, name: str) -> str:
        base = self._job.request["OutputDataConfig"]["S3OutputPath"]
        return join_uri(base, self._job.training_job_name, "output", name)

    def _upload(self, folder: Path, name: str) -> None:
        def pack_and_send() -> None:
            packed = self._tree.root / name
            archive.pack(folder, packed)
            self._s3.upload(packed, self._artifact(name))
            packed.unlink()

        self._attempt(f"Artifact upload failed: {name}", pack_and_send)

    def _attempt(self, what: str, action: Callable[[], T]) -> T:
        try:
            return action()
        except TRANSFER_ERRORS as error:
            raise JobFailed(f"ClientError: {what}: {_short(error)}") from error


def _short(error: Exception) -> str:
    if isinstance(error, ClientError):
        found = error.response.get("Error", {})
        return f"{found.get('Code')}: {found.get('Message')}"
    return f"{type(error).__name__}: {error}" if not str(error) else str(error)
