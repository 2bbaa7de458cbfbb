"""SageMaker jobs under names that are known beforehand: describe first, create only what is not there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook
from airflow.sdk.exceptions import AirflowFailException
from botocore.exceptions import ClientError

from leeway.hooks.sagemaker.aws_errors import code_of, passes, patiently
from leeway.hooks.step.hook import Logger

Kind = Literal["training", "processing", "transform"]
LOST = {
    "training": "what it has not checkpointed is lost",
    "processing": "what it has done is lost",
    "transform": "what it has done is lost",
}
"""What a stop costs."""
NOT_THERE = ("not found", "Could not find")
"""What the ValidationException says of a training job, and of any other job or model, that is not there."""
MAX_NAMES = 99
"""Most jobs that one task may start over all its tries: two digits in a name."""


def call(client: Any, verb: str, kind: Kind, name: str, **more: Any) -> Any:
    """The answer of SageMaker's operation VERB KIND Job; of an asynchronous client, what is to be awaited."""
    return getattr(client, f"{verb}_{kind}_job")(**{f"{kind.capitalize()}JobName": name}, **more)


def base_name(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """The job's name without its number: of the task, not of the try; at most 60 of SageMaker's 63 characters."""
    told = hashlib.sha256("\0".join([dag_id, run_id, task_id, str(map_index)]).encode()).hexdigest()
    slug = re.sub(r"[^a-zA-Z0-9]+", "-", f"{dag_id}-{task_id}").strip("-")
    return f"{slug[:43]}-{told[:16]}".strip("-")


def digest(asked: Mapping[str, Any]) -> str:
    """12 hex digits of SHA-256 of some inputs."""
    return hashlib.sha256(repr(sorted(asked.items())).encode()).hexdigest()[:12]


def holds(told: Any, asked: Any) -> bool:
    """Whether a description says what was asked; SageMaker adds defaults of its own (CompressionType: None)."""
    if isinstance(asked, Mapping):
        return isinstance(told, Mapping) and all(holds(told.get(key), value) for key, value in asked.items())
    if isinstance(asked, list):
        return isinstance(told, list) and len(told) == len(asked) and all(map(holds, told, asked))
    return bool(told == asked)


def is_missing(error: ClientError) -> bool:
    """Whether the error says that what was asked for is not there."""
    return any(text in str(error) for text in NOT_THERE) or code_of(error) == "ResourceNotFound"


class NamedJobs:
    """The jobs of one task: `base`-1, `base`-2, ...; at most one of them lives.

    Args:
        hook: the provider's.
        log: where decisions are told.
        base: name without number.
    """

    kind: ClassVar[Kind]

    def __init__(self, hook: SageMakerHook, log: Logger, base: str) -> None:
        self.hook, self.log, self.base = hook, log, base
        self.live = ""
        """The job that this process started or found alive."""

    def name(self, number: int) -> str:
        """The job's name of an attempt.

        Raises:
            AirflowFailException: the task had `MAX_NAMES` attempts.
        """
        if number > MAX_NAMES:
            raise AirflowFailException(
                f"{MAX_NAMES} {self.kind} jobs {self.base}-N ended without success: see their logs."
            )
        return f"{self.base}-{number}"

    def attempts(self) -> list[dict[str, Any]]:
        """SageMaker's description of every attempt, oldest first."""
        found: list[dict[str, Any]] = []
        while len(found) < MAX_NAMES and (job := self.describe(self.name(len(found) + 1))):
            found.append(job)
        return found

    def describe(self, name: str) -> dict[str, Any] | None:
        """What SageMaker knows of a job; None where there is none."""
        try:
            return dict(self._ask("describe", name))
        except ClientError as error:
            if is_missing(error):
                return None
            raise

    def create(self, name: str, request: Mapping[str, Any]) -> bool:
        """A job of that name exists. Returns whether this call made it: another process may have been first."""
        self.live = name  # before the call: who is killed during it must stop what comes of it
        try:
            self._ask("create", name, **request)
        except ClientError as error:
            if code_of(error) != "ResourceInUse":
                raise
            return False
        self.log.info("started %s job %s", self.kind, name)
        return True

    def stop(self, name: str) -> None:
        """The job was told to stop, or has ended."""
        try:
            self._ask("stop", name)
        except ClientError as error:
            if passes(error):
                raise
            return  # it ended meanwhile
        self.log.warning("%s job %s: told to stop; %s", self.kind, name, LOST[self.kind])

    def _ask(self, verb: str, name: str, **more: Any) -> Any:
        return patiently(lambda: call(self.hook.conn, verb, self.kind, name, **more), self.log)
