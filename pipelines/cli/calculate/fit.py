"""Say in sentences whether something fits into the memory of a GPU, and what would make it fit."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.planning.batch_limits import Change


def describe_changes(needed_gb: float, available_gb: float, changes: Sequence[Change]) -> list[str]:
    """Return the sentences about the fit, and about the changes that would make it fit."""
    fit = describe_fit(needed_gb, available_gb)
    if needed_gb <= available_gb:
        return [fit]
    if not changes:
        return [fit, "No change that is known here makes it fit: use a GPU with more memory, or a smaller model."]
    return [fit, *(f"It would fit with {change.text}: {change.needed_gb:.1f} GB." for change in changes)]


def describe_fit(needed_gb: float, available_gb: float) -> str:
    """Return the sentence whether the needed memory fits."""
    verb = "fits" if needed_gb <= available_gb else "does not fit"
    return f"It {verb}: {needed_gb:.1f} GB are needed, and {available_gb:.1f} GB of a GPU are available."
