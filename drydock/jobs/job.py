"""A job: what was asked for, and what has really happened to it so far. Every change is stored before it is seen."""

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from drydock.host.machines import Need, need_of
from drydock.jobs.record import Record, Transition, now, running_s
from drydock.jobs.states import MESSAGES, Phase, Status
from drydock.store import Store


class Job(ABC):
    """One job. Every method is atomic: API threads read while the job's own thread writes.

    Args:
        store: Where the record is kept, in the tables of `record.SCHEMA`.
        account_id: The account that created it.
        region: The region it was created in.
        record: What is known of it.
    """

    word: ClassVar[str]
    """What the API's names say of its kind: Training, of CreateTrainingJob and TrainingJobName."""
    tree: ClassVar[str]
    """The folder of its kind in the data folder."""
    summary_keys: ClassVar[Sequence[str]]
    """What List shows of it, of what Describe shows."""
    taken: ClassVar[str] = "Job name must be unique within an AWS account and region, and a"
    """How the refusal of a second job of its name begins."""

    def __init__(self, store: Store, account_id: str, region: str, record: Record) -> None:
        self.account_id, self.region, self.record = account_id, region, record
        self.stop_requested = threading.Event()
        self._store = store
        self._lock = threading.RLock()
        self._forgotten = False
        if record.status is Status.STOPPING:
            self.stop_requested.set()

    @property
    def name(self) -> str:
        """The job's name, unique in its account and region."""
        return str(self.record.request[f"{self.word}JobName"])

    @property
    def kind(self) -> str:
        """What it is called in the store, and to people."""
        return self.word.lower()

    @property
    def log_group(self) -> str:
        """Where its log goes in CloudWatch Logs."""
        return f"/aws/sagemaker/{self.word}Jobs"

    @property
    def arn(self) -> str:
        """The job's ARN."""
        return self.record.arn

    @property
    def tags(self) -> list[dict[str, str]]:
        """The job's tags, for moto's tagging and Search."""
        return self.record.tags

    @property
    def status(self) -> Status:
        """The status as of now."""
        return self.record.status

    @property
    def phase(self) -> Phase:
        """SecondaryStatus as of now."""
        return self.record.transitions[-1].phase

    @property
    def created(self) -> datetime:
        """CreationTime."""
        return self.record.transitions[0].start

    @property
    def started(self) -> datetime | None:
        """When the first instance was there: SageMaker bills the download too."""
        return next((line.start for line in self.record.transitions if line.phase is Phase.DOWNLOADING), None)

    @property
    def ended(self) -> datetime | None:
        """When the job ended."""
        return self.record.transitions[-1].end if self.status.ended else None

    @property
    def runs(self) -> int:
        """How often its command was started so far."""
        return sum(line.phase is Phase.TRAINING for line in self.record.transitions)

    @property
    def request(self) -> dict[str, Any]:
        """The request, with the API's defaults."""
        return self.record.request

    @property
    @abstractmethod
    def image(self) -> str:
        """The image that was asked for."""

    @property
    @abstractmethod
    def arguments(self) -> Sequence[str]:
        """What the image's own entrypoint gets, where nothing else is executed."""

    @property
    @abstractmethod
    def resources(self) -> Mapping[str, Any]:
        """The request's InstanceType and InstanceCount."""

    @property
    def spot(self) -> bool:
        """Whether it runs on managed spot instances."""
        return bool(self.request.get("EnableManagedSpotTraining", False))

    @property
    def host_count(self) -> int:
        """The number of instances."""
        return int(self.resources["InstanceCount"])

    @property
    def instance_type(self) -> str:
        """Such as ml.m5.large."""
        return str(self.resources.get("InstanceType", ""))

    @property
    def instance(self) -> Need:
        """What one of its instances has."""
        return need_of(self.instance_type)

    @property
    def runtime_left_s(self) -> float:
        """Seconds until MaxRuntimeInSeconds is used up, by running time."""
        return self._limit("MaxRuntimeInSeconds") - running_s(self.record.transitions, now())

    @property
    def wait_left_s(self) -> float:
        """Seconds until MaxWaitTimeInSeconds has passed since the job's creation; endless for what is not spot."""
        return self._limit("MaxWaitTimeInSeconds") - (now() - self.created).total_seconds()

    def _limit(self, name: str) -> float:
        return float(self.request.get("StoppingCondition", {}).get(name, math.inf))

    def enter(self, phase: Phase, message: str | None = None, *, since: datetime | None = None) -> None:
        """The job is in phase from now on; entering the phase it is in only changes the message.

        Args:
            phase: The phase.
            message: StatusMessage, where the phase's own does not say enough.
            since: The moment, where it was not now.
        """
        with self._lock:
            text = message or MESSAGES[phase]
            if phase is not self.phase or text != self.record.transitions[-1].message:
                self._move(phase, text, since or now())
                self.save()

    def _move(self, phase: Phase, message: str, moment: datetime) -> None:
        record = self.record
        record.modified = moment
        if phase is self.phase:
            record.transitions[-1].message = message
        else:
            record.transitions[-1].end = moment
            record.transitions.append(Transition(phase, moment, message))

    def advance(self, phase: Phase) -> bool:
        """The job is in phase, unless it is being stopped. Returns whether it goes on."""
        with self._lock:
            goes_on = self.status is Status.IN_PROGRESS
            if goes_on:
                self.enter(phase)
            return goes_on

    def stopping(self) -> None:
        """The job is Stopping, unless it has ended."""
        with self._lock:
            if self.status is Status.IN_PROGRESS:
                self.record.status = Status.STOPPING
                self.enter(Phase.STOPPING)

    def request_stop(self) -> Status:
        """The job's thread has been told to stop it, unless it ended. Returns the former status."""
        with self._lock:
            before = self.status
            if not before.ended:
                self.stop_requested.set()
                self.stopping()
            return before

    def exited(self, why: str, code: int) -> None:
        """The command has ended: should the server be killed now, the next one only uploads."""
        with self._lock:
            self.record.exited = (why, code)
            self.save()

    def has_model(self, uri: str) -> None:
        """ModelArtifacts names uri (S3) from now on."""
        with self._lock:
            self.record.artifacts = uri

    def end(self, status: Status, phase: Phase, reason: str | None = None) -> None:
        """The job has ended as status; phase and reason say why. A second end changes nothing.

        Raises:
            sqlite3.Error: It has ended, but the store cannot take it now: to be saved again.
        """
        with self._lock:
            if self.status.ended:
                return
            # Stored at once, since a server may be killed in between: a phase that is an end comes with its status.
            self._move(phase, MESSAGES[phase], now())
            self.record.transitions[-1].end = self.record.modified
            self.record.reason = reason
            self.record.status = status
            self.save()

    def complete(self) -> None:
        """The job is Completed, or Stopped where a stop was asked for before its end."""
        with self._lock:
            stopped = self.status is Status.STOPPING
            status, phase = (Status.STOPPED, Phase.STOPPED) if stopped else (Status.COMPLETED, Phase.COMPLETED)
            self.end(status, phase)

    def forget(self) -> None:
        """The job leaves no trace any more, whatever still happens to it."""
        with self._lock:
            self._forgotten = True

    def save(self) -> None:
        """The store has the record as it is now."""
        with self._lock, self._store.write() as db:
            if self._forgotten:
                return
            key = (self.kind, self.account_id, self.region, self.name)
            row = (*key, self.created.isoformat(), self.record.dump())
            db.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?)", row)

    def seconds(self) -> tuple[int, int] | None:
        """Return the training and the billable seconds, once the job has ended after having run; None before.

        Whole seconds, rounded up, so that nobody divides by zero for the saving of a very short job.
        """
        with self._lock:
            if self.ended is None or self.started is None:
                return None
            training = max(1, math.ceil(running_s(self.record.transitions, self.ended)))
            return training, math.ceil(training * self.record.billable_fraction)

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what the API's Describe operation answers."""

    def summary(self) -> dict[str, Any]:
        """Return the job's line in the API's List operation."""
        shown = self.describe()
        return {key: shown[key] for key in self.summary_keys if key in shown}

    def gen_response_object(self) -> dict[str, Any]:
        """Return what Search shows of the job (moto's name for it)."""
        return self.describe()
