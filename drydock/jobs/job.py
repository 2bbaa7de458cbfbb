"""A job: its record, and the methods that change the record and store it."""

import math
import threading
from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from drydock.jobs.description import JobDescription
from drydock.jobs.record import Record, Transition, get_now, measure_running_s
from drydock.jobs.states import MESSAGES, Phase, Status
from drydock.store import Store


class Job(JobDescription):
    """One job. Safe for several threads: its methods are called by the job's own thread and by those of the API.

    Args:
        store: Storage of the record, with the tables of `record.SCHEMA`.
        account_id: The account that created the job.
        region: The region that the job was created in.
        record: The job's record.
    """

    folder: ClassVar[str]
    """Name of the kind's folder in the data folder."""
    summary_keys: ClassVar[Sequence[str]]
    """The members of Describe's response that List shows, too."""
    duplicate_name_prefix: ClassVar[str] = "Job name must be unique within an AWS account and region, and a"
    """Start of SageMaker's message that refuses a second job with the same name. The API adds " job with this
    name already exists"."""

    def __init__(self, store: Store, account_id: str, region: str, record: Record) -> None:
        super().__init__(record)
        self.account_id, self.region = account_id, region
        self.stop_event = threading.Event()
        self._store = store
        self._lock = threading.RLock()
        self._is_discarded = False
        if record.status is Status.STOPPING:
            self.stop_event.set()

    @property
    def has_metrics(self) -> bool:
        """Whether the job has metrics, which are read from its log."""
        return False

    def update_metrics(self, lines: Sequence[str], printed_ms: int) -> None:
        """Update and store the job's metrics from lines of its log.

        Args:
            lines: Lines without their newlines.
            printed_ms: When they were printed, in milliseconds since 1970.

        Raises:
            sqlite3.Error: The disk is full or not writable. A retry can help.
        """
        raise NotImplementedError(f"{self.kind} jobs have no metrics")

    @property
    def is_discarded(self) -> bool:
        """Whether a reset of the server has deleted the job."""
        return self._is_discarded

    def enter_phase(self, phase: Phase, message: str | None = None, *, since: datetime | None = None) -> None:
        """Begin a phase. If the job is already in it, only the message and `record.modified` change.

        Args:
            phase: The phase that begins.
            message: StatusMessage; the phase's usual message if None.
            since: When the phase began; now if None.
        """
        with self._lock:
            text = message or MESSAGES[phase]
            if phase is not self.phase or text != self.record.transitions[-1].message:
                self._change_phase(phase, text, since or get_now())
                self.save()

    def set_phase_end(self, moment: datetime) -> None:
        """Set when the current phase ended, before the next one begins. The time in between belongs to no phase."""
        with self._lock:
            self.record.transitions[-1].end = moment
            self.save()

    def advance_to(self, phase: Phase) -> bool:
        """Begin a phase, unless the job is being stopped or has ended. Return whether the phase began."""
        with self._lock:
            can_advance = self.status is Status.IN_PROGRESS
            if can_advance:
                self.enter_phase(phase)
            return can_advance

    def set_stopping(self) -> None:
        """Set the status to Stopping, unless the job has ended."""
        with self._lock:
            if self.status is Status.IN_PROGRESS:
                self.record.status = Status.STOPPING
                self.enter_phase(Phase.STOPPING)

    def request_stop(self) -> Status:
        """Ask the job's thread to stop the job, unless the job has ended. Return the status before the call."""
        with self._lock:
            status_before = self.status
            if not status_before.is_final:
                self.stop_event.set()
                self.set_stopping()
            return status_before

    def record_exit(self, cause: str, exit_code: int) -> None:
        """Store that the command has ended. If the server is killed after that, the next server only uploads results.

        Args:
            cause: Why it ended, a value of `execution.supervise.Cause`.
            exit_code: The exit code, as a shell reports it.
        """
        with self._lock:
            self.record.command_end = (cause, exit_code)
            self.save()

    def set_model_uri(self, uri: str) -> None:
        """Set the S3 URI that ModelArtifacts shows. The next `save` stores it."""
        with self._lock:
            self.record.artifacts = uri

    def end(self, status: Status, phase: Phase, reason: str | None = None, *, ended_at: datetime | None = None) -> None:
        """End the job. A second call changes nothing.

        Args:
            status: The final status.
            phase: The final SecondaryStatus.
            reason: FailureReason, of a failed job.
            ended_at: When the job ended; now if None.

        Raises:
            sqlite3.Error: The end cannot be stored now, but the job has ended. Call `save` again later.
        """
        with self._lock:
            if self.status.is_final:
                return
            # Phase and status are stored together: a server that is killed in between must not leave only one of them.
            end_time = max(ended_at or get_now(), self.record.transitions[-1].start)
            self._change_phase(phase, MESSAGES[phase], end_time)
            self.record.transitions[-1].end = self.record.modified
            self.record.reason = reason
            self.record.status = status
            self.save()

    def complete(self) -> None:
        """End the job as Completed, or as Stopped if a stop was requested before its end."""
        with self._lock:
            self.end(*self.choose_end())

    def choose_end(self) -> tuple[Status, Phase]:
        """Return the final status and phase of a job that did not fail: Stopped if it is Stopping, else Completed."""
        if self.status is Status.STOPPING:
            return Status.STOPPED, Phase.STOPPED
        return Status.COMPLETED, Phase.COMPLETED

    def discard(self) -> None:
        """Record that a reset has deleted the job. Later changes of the job are not stored."""
        with self._lock:
            self._is_discarded = True

    def save(self) -> None:
        """Write the record to the store, replacing what was there.

        Raises:
            sqlite3.Error: The disk is full or not writable. A retry can help.
        """
        with self._lock, self._store.transaction() as db:
            if self._is_discarded:
                return
            key = (self.kind, self.account_id, self.region, self.name)
            row = (*key, self.created_at.isoformat(), self.record.dump())
            db.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?)", row)

    def measure_seconds(self) -> tuple[int, int] | None:
        """Return the training seconds and the billable seconds of a job that ran and has ended; None for any other.

        Both are whole seconds, rounded up, and at least 1: a client divides by them to compute the saving.
        """
        with self._lock:
            if self.ended_at is None or self.started_at is None:
                return None
            training_s = max(1, math.ceil(measure_running_s(self.record.transitions, self.ended_at)))
            return training_s, math.ceil(training_s * self.record.billable_fraction)

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the response of the API's Describe operation."""

    def summarize(self) -> dict[str, Any]:
        """Return the job's entry in the API's List operation."""
        description = self.describe()
        return {key: description[key] for key in self.summary_keys if key in description}

    def gen_response_object(self) -> dict[str, Any]:
        """Return what Search shows of the job. The name is moto's."""
        return self.describe()

    def _change_phase(self, phase: Phase, message: str, since: datetime) -> None:
        record = self.record
        record.modified = since
        if phase is self.phase:
            record.transitions[-1].message = message
        else:
            record.transitions[-1].end = record.transitions[-1].end or since
            record.transitions.append(Transition(phase, since, message))
