"""Choose how often a training saves a checkpoint, and estimate what interruptions cost. Formulas name their source."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipelines.errors import SpecError
from pipelines.planning.memory import OPTIMIZERS, STATES, TrainingSetup
from pipelines.planning.sizes import (
    MAX_GB_S,
    MAX_PARAMETERS,
    MAX_S,
    require_not_negative,
    require_positive,
    require_share,
)

MONTH_H = 730.0
"""Hours of a month: 8,760 / 12."""
COMMON_INTERVALS_S = (900.0, 1800.0)
"""Intervals that guides recommend: every 15 to 30 minutes."""
MAX_INTERVAL_RATIO = 50.0
"""Largest sum of interval, save and restart, as a multiple of the mean time between interruptions: with a larger one,
trainings never end."""


@dataclass(frozen=True)
class InterruptedRun:
    """The time of a training with checkpoints and interruptions, seconds of running instances.

    Attributes:
        work_s: time of the training without checkpoints and interruptions.
        saving_s: time of the completed saves.
        lost_s: time of work that is done again, of saves that did not end, and of restarts.
        interruptions: expected number of interruptions.
    """

    work_s: float
    saving_s: float
    lost_s: float
    interruptions: float

    @property
    def total_s(self) -> float:
        """All seconds of running instances. The wait for new instances is not included."""
        return self.work_s + self.saving_s + self.lost_s

    @property
    def overhead(self) -> float:
        """Time beyond the work, as a share of the work."""
        return (self.saving_s + self.lost_s) / self.work_s


def compute_checkpoint_bytes(trained_parameters: float, setup: TrainingSetup | None = None) -> float:
    """Return the bytes of a checkpoint: weights, their fp32 copy, and the optimizer's states, without gradients.

    Source: Rajbhandari et al. 2020, section 3.1, without the 2 bytes of gradients: 14 bytes for each parameter with
    Adam in mixed precision. Frozen weights are not saved.

    Args:
        trained_parameters: number of parameters that are trained.
        setup: how they are trained; by default with Adam in mixed precision.

    Raises:
        SpecError: the number is not positive. A retry cannot help.
    """
    setup = setup or TrainingSetup()
    require_positive("trained_parameters", trained_parameters, MAX_PARAMETERS)
    weight, _, copy = STATES[setup.precision]
    return trained_parameters * (weight + copy + OPTIMIZERS[setup.optimizer])


def estimate_save_s(checkpoint_bytes: float, write_gb_s: float) -> float:
    """Return the seconds of a save: bytes / throughput.

    If the training continues during the save, the save costs only the pause of the training.

    Args:
        checkpoint_bytes: bytes of all parts of a checkpoint.
        write_gb_s: throughput of all writers together, GB/s.

    Raises:
        SpecError: a number is not positive. A retry cannot help.
    """
    require_positive("checkpoint_bytes", checkpoint_bytes)
    require_positive("write_gb_s", write_gb_s, MAX_GB_S)
    return checkpoint_bytes / (write_gb_s * 1e9)


def compute_interruptions_per_h(month_share: float) -> float:
    """Return the interruptions of an instance in an hour from the share that is interrupted in a month.

    Source: the exponential distribution, `-ln(1 - share) / 730`. AWS's Spot Instance Advisor publishes the share of the
    last month as a class: below 5 %, 5 to 10, 10 to 15, 15 to 20, above 20.

    Args:
        month_share: share of the instances, above 0 and below 1.

    Raises:
        SpecError: the share is out of its range. A retry cannot help.
    """
    require_share("month_share", month_share, is_zero_allowed=False)
    if month_share == 1:
        raise SpecError("month_share must be less than 1.", "If every instance is interrupted, give the rate per hour.")
    return -math.log(1 - month_share) / MONTH_H


def compute_mean_time_s(interruptions_per_h: float, instances: int = 1) -> float:
    """Return the mean time between interruptions of a job, seconds. If one instance is interrupted, the job is.

    Source: the minimum of independent exponential times, `3600 / (rate * instances)`.

    Raises:
        SpecError: a number is not positive. A retry cannot help.
    """
    require_positive("interruptions_per_h", interruptions_per_h, 3600)
    require_positive("instances", instances)
    return 3600 / (interruptions_per_h * instances)


def compute_young_interval_s(save_s: float, mean_time_s: float) -> float:
    """Return the optimal work between two saves, seconds, to first order: `sqrt(2 * save * mean)`.

    Source: Young 1974 (A first order approximation to the optimum checkpoint interval).

    Args:
        save_s: seconds that the training pauses for a save.
        mean_time_s: mean time between interruptions, seconds.

    Raises:
        SpecError: a number is not positive, or `save_s` is not less than `mean_time_s`. A retry cannot help.
    """
    _check_times(save_s, mean_time_s)
    return math.sqrt(2 * save_s * mean_time_s)


def compute_daly_interval_s(save_s: float, mean_time_s: float) -> float:
    """Return the optimal work between two saves: `sqrt(2 * d * M) * (1 + sqrt(x) / 3 + x / 9) - d`, `x = d / (2 * M)`.

    Source: Daly 2006 (A higher order estimate of the optimum checkpoint interval for restart dumps), equation 37, for a
    save `d` that is shorter than twice the mean time `M` between interruptions.

    Args:
        save_s: seconds that the training pauses for a save.
        mean_time_s: mean time between interruptions, seconds.

    Raises:
        SpecError: a number is not positive, or `save_s` is not less than `mean_time_s`. A retry cannot help.
    """
    _check_times(save_s, mean_time_s)
    ratio = save_s / (2 * mean_time_s)
    return math.sqrt(2 * save_s * mean_time_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save_s


def compute_worthwhile_save_s(lost_s: float, mean_time_s: float) -> float:
    """Return the longest save, seconds, with which it pays to save more often: `2 * lost^2 / mean`.

    Source: Young 1974, solved for the save: an interruption undoes half of an interval on average, so the interval is
    `2 * lost`, and `(2 * lost)^2 / (2 * mean)` is the save for which it is the optimum.

    Args:
        lost_s: mean work that an interruption undid, seconds.
        mean_time_s: mean time between interruptions, seconds.

    Raises:
        SpecError: a number is not positive. A retry cannot help.
    """
    require_positive("lost_s", lost_s)
    require_positive("mean_time_s", mean_time_s)
    return 2 * lost_s**2 / mean_time_s


def estimate_interrupted_run(
    work_s: float, interval_s: float, save_s: float, mean_time_s: float, restart_s: float = 0.0
) -> InterruptedRun:
    """Return the expected time of a training: `M * exp(R / M) * (exp((t + d) / M) - 1) * work / t`.

    Source: Daly 2006, the complete wall clock time, for interruptions at exponential times that can come during a save
    and a restart, too. The tests compare it with a simulation. Of this time, `work` is the training itself,
    `work * d / t` are completed saves, and the rest is lost. The number of interruptions is this time / M.

    A training that is shorter than the interval saves once, at its end. The formula assumes that an interruption comes
    without a warning: a script that saves at SIGTERM loses less.

    Args:
        work_s: seconds of the training without checkpoints and interruptions.
        interval_s: work `t` between two saves.
        save_s: seconds `d` that the training pauses for a save.
        mean_time_s: mean time `M` between interruptions, seconds.
        restart_s: seconds `R` of a restart on new instances: download, and reading of the checkpoint.

    Raises:
        SpecError: a number is out of its range, or the training would hardly advance. A retry cannot help.
    """
    _check_times(save_s, mean_time_s)
    require_positive("work_s", work_s)
    require_positive("interval_s", interval_s, MAX_S)
    require_not_negative("restart_s", restart_s, MAX_S)
    if interval_s + save_s + restart_s > MAX_INTERVAL_RATIO * mean_time_s:
        raise SpecError(
            f"the training would never end: {interval_s + save_s + restart_s:g} s of work, save and restart without "
            f"an interruption are needed, and there is one every {mean_time_s:g} s.",
            "Save more often.",
        )
    interval_s = min(interval_s, work_s)
    cycle = math.exp(restart_s / mean_time_s) * math.expm1((interval_s + save_s) / mean_time_s)
    total_s = mean_time_s * cycle * work_s / interval_s
    saving_s = work_s * save_s / interval_s
    return InterruptedRun(work_s, saving_s, total_s - work_s - saving_s, total_s / mean_time_s)


def _check_times(save_s: float, mean_time_s: float) -> None:
    require_positive("save_s", save_s)
    require_positive("mean_time_s", mean_time_s)
    if save_s >= mean_time_s:
        raise SpecError(
            f"there is more than one interruption for each save: a save takes {save_s:g} s, and an interruption comes "
            f"every {mean_time_s:g} s.",
            "Save faster, or use instances that are interrupted less.",
        )
