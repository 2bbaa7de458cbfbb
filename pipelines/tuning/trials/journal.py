"""Open the study of a tuning: Optuna's journal, an append-only file that holds all trials.

Only the process that holds the lock of the tuning writes to its journal. Optuna's own lock is not used, so a killed
process leaves at most an incomplete last line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import optuna
from optuna.pruners import BasePruner
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from pipelines.errors import DataError

JOURNAL_FILE = "journal.log"
WARM_NUMBER = "warm"
"""User attribute of each trial that `warm_start` added from an earlier tuning: its number among those that were
added, from 0."""

EARLIER_TRIALS = "earlier_trials"
"""User attribute of a study: what `count_earlier_trials` returns. A study of an earlier release lacks it."""


class _NoLock:
    """Lock nothing: Optuna's own lock would stay after a kill, and delay the next process by 30 seconds."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass


def open_study(folder: Path, name: str, pruner: BasePruner | None = None) -> optuna.Study:
    """Open the study of a tuning, or create it. The caller holds the tuning's lock.

    Args:
        folder: folder of the tuning; created if it does not exist.
        name: name of the study.
        pruner: decides whether a trial is stopped early.

    Raises:
        DataError: the journal is damaged. A retry cannot help.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _cut_incomplete_line(folder / JOURNAL_FILE)
    return optuna.create_study(
        storage=_open_storage(folder), study_name=name, load_if_exists=True, direction="minimize", pruner=pruner
    )


def read_trials(folder: Path) -> tuple[list[FrozenTrial], int]:
    """Read the trials of another tuning from its folder. Nothing is changed there: it may run in another process.

    Returns:
        The trials of the other tuning, and the number of trials from which that tuning learned (warm start).

    Raises:
        DataError: the journal is damaged. A retry cannot help.
    """
    storage = _open_storage(folder)
    studies = [optuna.load_study(study_name=name, storage=storage) for name in optuna.get_all_study_names(storage)]
    return [trial for study in studies for trial in list_trials(study)], sum(map(count_earlier_trials, studies))


def _open_storage(folder: Path) -> JournalStorage:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path, lock = folder / JOURNAL_FILE, cast(Any, _NoLock())
    try:
        return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError):  # what Optuna 4 raises
        message = f"{path} is damaged, so the trials of this tuning cannot be read."
        raise DataError(message, "Move its folder away: a new search then begins.") from None


def list_trials(study: optuna.Study) -> list[FrozenTrial]:
    """List the trials that this tuning started, in the order of their numbers."""
    trials = study.get_trials(deepcopy=False)
    return [trial for trial in trials if WARM_NUMBER not in trial.user_attrs and trial.state != TrialState.WAITING]


def count_warm_trials(study: optuna.Study) -> int:
    """Count the trials that a warm start added: this is the number in Optuna of the first trial of this tuning."""
    return sum(WARM_NUMBER in trial.user_attrs for trial in study.get_trials(deepcopy=False))


def count_earlier_trials(study: optuna.Study) -> int:
    """Count all trials of the earlier tunings that this one learned from; those outside its space count, too."""
    return int(study.user_attrs.get(EARLIER_TRIALS, count_warm_trials(study)))


def find_best(study: optuna.Study) -> FrozenTrial | None:
    """Return the completed trial with the lowest objective, the first of equal ones; None if no trial is complete."""
    completed_trials = [trial for trial in list_trials(study) if trial.state == TrialState.COMPLETE]
    return min(completed_trials, key=lambda trial: (trial.value, trial.number), default=None)


def _cut_incomplete_line(path: Path) -> None:
    """Remove what follows the last line break: a process was killed while it wrote this line."""
    if not path.exists():
        return
    content = path.read_bytes()
    complete_bytes = content.rfind(b"\n") + 1
    if complete_bytes < len(content):
        with path.open("rb+") as file:
            file.truncate(complete_bytes)
