"""Estimate a training from past jobs in the ledger: their times, the size of their data, and their utilization."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pipelines.errors import DataError
from pipelines.instances.catalogue import Instance
from pipelines.planning.recommendation.data_size import SizedJob, TimeBySize, fit_times, format_bytes
from pipelines.planning.recommendation.past_jobs import (
    Row,
    compute_work_s,
    describe_unusable_rows,
    find_type,
    get_model_or_task,
    is_usable,
    read_figure,
)
from pipelines.planning.recommendation.past_use import PastUse, summarize_use
from pipelines.planning.recommendation.workloads import Estimate, Infeasibility, Machines, format_machines

MAX_JOBS = 5
"""Number of the newest past jobs from which the median time and the utilization are computed."""
MAX_SIZED_JOBS = 12
"""Number of the newest past jobs from which the time is predicted by the size of the data: a year of monthly jobs."""
SPREAD = 1.25
"""Factor by which each end of a time's band is moved outwards for machines on which no past job ran."""


@dataclass(frozen=True)
class PastTime:
    """The time of the past jobs on some machines.

    Attributes:
        median_s: median of the times of the newest jobs, seconds.
        jobs: number of jobs from which the time is predicted.
        spread: largest factor between the time of such a job and its predicted time.
        by_size: how the time depends on the size of the data; None if no job has a size.
    """

    median_s: float
    jobs: int
    spread: float
    by_size: TimeBySize | None = None


@dataclass(frozen=True)
class MeasuredWorkload:
    """A training as past jobs measured it.

    Attributes:
        model: name of the model; DAG.TASK if the past jobs have no model.
        past_use: instance type of the newest past job, and what the past jobs on it used of it.
        count: number of instances of the newest past job.
        times: maps the type and number of machines to the time of the past jobs on them.
        data_bytes: bytes of the data of the planned training; None if neither a plan nor a past job gives a size.
        is_size_of_newest: whether `data_bytes` is the size of the newest past job whose size is known, because no size
            was given.
    """

    model: str
    past_use: PastUse
    count: int
    times: Mapping[tuple[str, int], PastTime]
    data_bytes: float | None = None
    is_size_of_newest: bool = False

    @property
    def past_type(self) -> Instance:
        """Instance type of the newest past job."""
        return self.past_use.past_type

    @property
    def counts(self) -> tuple[int, ...]:
        """Only the number of instances of the newest past job: how a script scales to other numbers is not known."""
        return (self.count,)

    @property
    def is_neuron(self) -> bool:
        """Whether the newest past job ran on AWS's own accelerators."""
        return bool(self.past_type.device and self.past_type.device.is_neuron)

    @property
    def seconds(self) -> float:
        """Predicted time on the machines of the newest past job, seconds."""
        return self._estimate_from(self._past_time).seconds

    @property
    def jobs(self) -> int:
        """Number of the past jobs from which `seconds` is predicted."""
        return self._past_time.jobs

    @property
    def spread(self) -> float:
        """Largest factor between a past job's time and its predicted time, on the machines of the newest past job."""
        return self._past_time.spread

    @property
    def has_size(self) -> bool:
        """Whether `seconds` is predicted by the size of the data."""
        return self.data_bytes is not None and self._past_time.by_size is not None

    def describe(self) -> str:
        """Return a sentence that describes the workload, with the size of the data that was used for it."""
        machines, by_size = format_machines(self.past_type.name, self.count), self._past_time.by_size
        if self.data_bytes is None or by_size is None:
            text = f"{self.jobs} past job(s) of {self.seconds:,.0f} s on {machines}"
        else:
            origin = ", the newest known size" if self.is_size_of_newest else ""
            size = f"{format_bytes(self.data_bytes)} of data{origin}"
            past_jobs = f"{self.jobs} past job(s) with {by_size.describe_sizes()} on {machines}"
            text = f"{self.seconds:,.0f} s for {size}, from {past_jobs}"
        return f"{self.model}: {text}, {self.past_use.describe()}"

    def estimate(self, machines: Machines) -> Estimate | Infeasibility:
        """Return how long the training takes on the machines, or why it cannot run there."""
        infeasibility = self.past_use.find_infeasibility(machines.instance)
        if infeasibility:
            return infeasibility
        past_time = self.times.get((machines.instance.name, machines.count))
        if past_time:
            return self._estimate_from(past_time)
        past_estimate = self._estimate_from(self._past_time)
        factor, low, high = self.past_use.scale(machines.instance)
        return Estimate(
            past_estimate.seconds * factor,
            past_estimate.low_s * low / SPREAD,
            past_estimate.high_s * high * SPREAD,
            "scaled",
            scaled_from=self.past_type.name,
            extrapolation=past_estimate.extrapolation,
            risk=past_estimate.risk,
        )

    @property
    def _past_time(self) -> PastTime:
        return self.times[self.past_type.name, self.count]

    def _estimate_from(self, past_time: PastTime) -> Estimate:
        """Return the estimate on machines on which the model was trained: by the size of the data if it is known."""
        spread = max(past_time.spread, self.spread)  # a few jobs on other machines may scatter less by chance
        if self.data_bytes is None or past_time.by_size is None:
            seconds = past_time.median_s
            return Estimate(seconds, seconds / spread, seconds * spread, "measured")
        time = past_time.by_size.predict(self.data_bytes)
        low, high = time.extrapolation
        return Estimate(
            time.seconds,
            time.seconds * low / spread,
            time.seconds * high * spread,
            "sized",
            extrapolation=time.extrapolation,
            risk=time.risk,
        )


def build_measured_workload(rows: Sequence[Row], name: str, data_bytes: float | None = None) -> MeasuredWorkload:
    """Build the workload of a training from its past jobs.

    On machines on which the training ran, its time is that of the past jobs there. For other machines, the time is
    scaled from the machines of the newest usable job.

    Args:
        rows: rows of the ledger of one model or job, oldest first.
        name: name of the model or of the job, for errors.
        data_bytes: bytes of the data of the planned training; None: the bytes of the newest job whose size is known.

    Raises:
        DataError: no row is a completed training with a time and a known instance type. A retry cannot help.
    """
    usable_rows = [row for row in rows if is_usable(row)]
    if not usable_rows:
        raise DataError(
            f"the ledger has no completed training of {name} with a time and a known type "
            f"({describe_unusable_rows(rows)}).",
            "Give --params and --tokens, or train it once.",
        )
    newest_row = usable_rows[-1]
    instance = find_type(newest_row)
    assert instance
    rows_by_machines: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in usable_rows:
        rows_by_machines[row["instance_type"], int(row["instance_count"])].append(row)
    sizes = [size for row in usable_rows if (size := read_figure(row, "input_bytes"))]
    count = int(newest_row["instance_count"])
    return MeasuredWorkload(
        model=get_model_or_task(newest_row),
        past_use=summarize_use(rows_by_machines[instance.name, count][-MAX_JOBS:], instance),
        count=count,
        times={machines: _measure_time(jobs) for machines, jobs in rows_by_machines.items()},
        data_bytes=data_bytes or (sizes[-1] if sizes else None),
        is_size_of_newest=not data_bytes and bool(sizes),
    )


def _measure_time(jobs: Sequence[Row]) -> PastTime:
    """Return the time of past jobs on the same machines. If some have a size, the others count only for the median."""
    times = [compute_work_s(row) for row in jobs][-MAX_JOBS:]
    median_s = median(times)
    sized_jobs = [SizedJob(size, compute_work_s(row)) for row in jobs if (size := read_figure(row, "input_bytes"))]
    if not sized_jobs:
        spread = max(max(seconds / median_s, median_s / seconds) for seconds in times)
        return PastTime(median_s, len(times), spread)
    by_size = fit_times(sized_jobs[-MAX_SIZED_JOBS:], MAX_JOBS)
    return PastTime(median_s, by_size.jobs, by_size.spread, by_size)
