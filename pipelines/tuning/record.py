"""Define the record of a tuning whose winner is trained. Section `train` of params.yaml and the reports contain it.

This module imports little at its top, because the Spec of `train`, which operators import, has such a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from pipelines.parameters import Parameters

RECORD_FILE = "tuning.json"
"""File with the record of the tuning, in the folder of a training's record and in that of an evaluation."""


class TuningRecord(Parameters):
    """What is recorded of the tuning that found the hyperparameters of a training; `tune apply` writes this record."""

    name: str
    """Name of the tuning, with a digest of features, code and plan; on SageMaker, the name of the last tuning job."""
    trials: int = Field(ge=1)
    """Number of all trials of the tuning: the pruned, failed and stopped ones, too."""
    earlier_trials: int = Field(default=0, ge=0)
    """Number of trials of the earlier tunings that this tuning learned from (warm start), and of the tunings that those
    learned from; they are not part of `trials`. 0: no warm start, or the record is of an earlier release."""
    stopped: int = Field(default=0, ge=0)
    """Number of trials that a limit, such as the budget, or a person stopped; they are part of `trials`, and none of
    them can win. 0 in a record of an earlier release."""
    strategy: str
    """Strategy that proposed the values of the trials; see `plan.Strategy`."""
    metric: str = "loss"
    """Name of the objective; less is better."""
    objective: float
    """The winner's mean loss over the folds. The best of many is optimistic."""
    fold_losses: list[float] = Field(default_factory=list)
    """Loss of the winner on each fold."""
    hyperparameters: dict[str, int | float | str]
    """Values of the winner."""

    def list_changes(self, hyperparameters: Mapping[str, Any]) -> list[str]:
        """List the hyperparameters that do not have the winner's value any more, sorted."""
        return sorted(
            name for name, value in self.hyperparameters.items() if not _is_equal(hyperparameters.get(name), value)
        )

    @property
    def warm_start_text(self) -> str:
        """The part of a sentence about the earlier trials, such as ", after a warm start from 9 earlier ones"."""
        if not self.earlier_trials:
            return ""
        return f", after a warm start from {self.earlier_trials} earlier {'ones' if self.earlier_trials > 1 else 'one'}"

    @property
    def trials_text(self) -> str:
        """The number of trials, such as "1 trial" or "50 trials"."""
        return f"{self.trials} trial{'s' if self.trials > 1 else ''}"

    @property
    def stopped_text(self) -> str:
        """The part of a sentence about stopped trials, such as ", 2 of them stopped by a limit or a person"."""
        return f", {self.stopped} of them stopped by a limit or a person" if self.stopped else ""

    def describe(self, validation: float | None, holdout: float | None, changes: list[str]) -> str:
        """Describe the tuning in a report, beside the losses of its refit.

        Args:
            validation: loss on the validation rows; None if it is not known.
            holdout: loss on the holdout; None if it is not known.
            changes: what `list_changes` returned for the training.
        """
        folds = f" on {len(self.fold_losses)} folds" if self.fold_losses else ""
        earlier_text = f" after {self.earlier_trials} earlier" if self.earlier_trials else ""
        lines = [
            f"{self.trials_text} ran{self.stopped_text}{self.warm_start_text} ({self.strategy}); the winner's mean "
            f"{self.metric}{folds} was {self.objective:.4f} "
            f"(best of {self.trials - self.stopped}{earlier_text}: optimistic)"
        ]
        losses = [
            f"{loss:.4f} on {part}"
            for part, loss in (("validation", validation), ("the holdout", holdout))
            if loss is not None
        ]
        if changes:
            lines.append(f"this training is not the winner's refit: {', '.join(changes)} changed since the tuning")
        if losses:
            lines.append(
                f"{'this training' if changes else 'its refit on the whole window'} has {' and '.join(losses)}"
            )
        return "; ".join(lines)


def _is_equal(value: object, expected_value: object) -> bool:
    """Return whether two values are equal; 5, 5.0 and the text "5" are, because the script gets text."""
    try:
        return float(str(value)) == float(str(expected_value))
    except ValueError:
        return str(value) == str(expected_value)


def read_record(folder: Path) -> TuningRecord | None:
    """Read the record of a tuning from a folder; None if there is none."""
    from pipelines.system.files import read_json_object

    values = read_json_object(folder / RECORD_FILE).get("tuning")
    return TuningRecord.model_validate(values) if values else None
