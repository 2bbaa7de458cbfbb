"""The work of a transform job: the model and a share of the input in, what the model said of it out."""

import contextlib
import functools
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drydock.errors import JobFailed
from drydock.host.executor import Executor
from drydock.host.requirements import require
from drydock.host.tree import HostTree
from drydock.jobs.environment import build_common_environment, make_host_context
from drydock.jobs.failure import algorithm_error, said_in
from drydock.jobs.states import Status
from drydock.jobs.transform import inference
from drydock.jobs.transform.job import TransformJob
from drydock.jobs.work import attempt
from drydock.settings import Settings
from drydock.transfer import archive, channels
from drydock.transfer.objects import ObjectStore

INPUT = "transform"
"""The channel that the objects to transform are in."""


class TransformWork:
    """One run of one transform job.

    Args:
        job: Its record.
        trees: Its hosts' trees, algo-1 first.
        executor: What runs them.
        settings: The server's settings.
    """

    def __init__(self, job: TransformJob, trees: Sequence[HostTree], executor: Executor, settings: Settings) -> None:
        self._job, self._trees, self._executor, self._settings = job, trees, executor, settings
        self._store = ObjectStore(settings.objects_url, job.account_id, job.region, settings.s3_patience_s)

    def create(self) -> None:
        """The trees are there, with the program that asks the model and what it is told."""
        for tree in self._trees:
            tree.create([tree.model, tree.output_data, tree.code, tree.channel(INPUT)])
            shutil.copyfile(inference.__file__, tree.code / inference.PROGRAM)
            (tree.code / inference.ASKED).write_text(json.dumps(self._asked()), encoding="utf-8")

    def download(self) -> None:
        """Model and input are in the trees.

        Raises:
            JobFailed: There is no input, or something cannot be had.
        """
        output = self._job.request["TransformOutput"]["S3OutputPath"]
        attempt(f"Artifact upload failed: {output}", lambda: self._store.require_bucket(output))
        for number, tree in enumerate(self._trees):
            self._download_model(tree)
            self._download_input(number, tree)

    def command(self, tree: HostTree) -> list[str]:
        """Return drydock's own program, which stands for the model's server and for who asks it."""
        return [self._executor.interpreter(), str(Path(self._executor.base(tree.root)) / "code" / inference.PROGRAM)]

    def environment(self, tree: HostTree) -> dict[str, str]:
        """Return a host's whole environment."""
        job, place = self._job, make_host_context(self._job, tree, self._executor, self._settings)
        told = {
            "SAGEMAKER_BASE_DIR": place.base,
            "SM_MODEL_DIR": f"{place.base}/model",
            "SAGEMAKER_PROGRAM": "inference.py",
            "SAGEMAKER_BATCH": "true",
            "SAGEMAKER_MAX_PAYLOAD_IN_MB": str(job.max_payload_mb),
            "SAGEMAKER_BATCH_STRATEGY": job.request.get("BatchStrategy", "MultiRecord"),
            "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": str(job.request.get("MaxConcurrentTransforms", 1)),
        }
        own = {**job.container.get("Environment", {}), **job.request.get("Environment", {})}
        return {**build_common_environment(job.region, place), **told, **own}

    def cwd(self, tree: HostTree) -> Path:
        """Return the model's folder."""
        return tree.model

    def read(self, line: str) -> None:
        """Transform jobs have no metrics."""

    def tick(self) -> None:
        """Nothing is carried out before the end."""

    def leave(self) -> None:
        """Nothing is kept of an unfinished transform job."""

    def deliver(self) -> Sequence[str]:
        """What the model said is in S3; of a job that was stopped nothing is, as on SageMaker.

        Raises:
            JobFailed: S3 does not take it, or the model's code has ended the program before its last answer.
        """
        if self._job.status is not Status.STOPPING:
            self._carry_out()
            self._require_answers()
        return []

    def fail(self, exit_code: int, last_lines: Sequence[str], command: Sequence[str]) -> str:
        """What the model said of other objects is in S3, as on SageMaker; returns why it did not answer for one."""
        with contextlib.suppress(JobFailed):  # that it failed before is what counts
            self._carry_out()
        said = next((text for tree in self._trees if (text := said_in(tree.output / "failure"))), "")
        if exit_code == inference.BAD_INPUT and said:
            return f"ClientError: {said}"
        told = next((tree.output / "failure" for tree in self._trees if (tree.output / "failure").exists()), None)
        return algorithm_error(exit_code, told or self._trees[0].output / "failure", last_lines, command)

    def _carry_out(self) -> None:
        uri = self._job.request["TransformOutput"]["S3OutputPath"]
        what = f"Artifact upload failed: {uri}"
        for tree in self._trees:
            attempt(what, functools.partial(tree.restore, tree.output_data))
            attempt(what, functools.partial(self._store.upload_folder, tree.output_data, uri))

    def _require_answers(self) -> None:
        """Each object has its output: an exit code of 0 alone may be `os._exit(0)` of the model's own code."""
        for tree in self._trees:
            source = tree.channel(INPUT)
            for name in sorted(one.relative_to(source) for one in source.rglob("*") if one.is_file()):
                if not (tree.output_data / inference.output_of(name)).is_file():
                    raise JobFailed(f"AlgorithmError: the program ended with exit code 0 and no output for {name}")

    def _asked(self) -> Mapping[str, Any]:
        """What the program is told of the request."""
        source, output = self._job.request["TransformInput"], self._job.request["TransformOutput"]
        return {
            "content_type": source.get("ContentType") or inference.DEFAULT_TYPE,
            "accept": output.get("Accept") or inference.DEFAULT_TYPE,
            "lines": source.get("SplitType", "None") == "Line",
            "alone": self._job.request.get("BatchStrategy", "MultiRecord") == "SingleRecord",
            "packed": source.get("CompressionType", "None") == "Gzip",
            "line_ends": output.get("AssembleWith", "None") == "Line",
            "max_bytes": self._job.max_payload_mb << 20,
        }

    def _download_model(self, tree: HostTree) -> None:
        uri, packed = self._job.model_data, tree.root / "model.tar.gz"
        what = f"Data download failed: model data: {uri}"
        attempt(what, lambda: self._store.download(uri, packed))
        attempt(what, lambda: archive.unpack(packed, tree.model))
        packed.unlink()
        if not self._executor.is_container:
            require(tree.model / "code" / "requirements.txt")

    def _download_input(self, number: int, tree: HostTree) -> None:
        source = self._job.request["TransformInput"]["DataSource"]["S3DataSource"]

        def fetch() -> int:
            return channels.download_source(
                self._store,
                uri=source["S3Uri"],
                data_type=source["S3DataType"],
                distribution="ShardedByS3Key",
                folder=tree.channel(INPUT),
                host_number=number,
                host_count=len(self._trees),
            )

        what = f"Data download failed: {source['S3Uri']}"
        if not attempt(what, fetch):
            raise JobFailed(f'ClientError: {what}: No S3 objects found under S3 URL "{source["S3Uri"]}"')
