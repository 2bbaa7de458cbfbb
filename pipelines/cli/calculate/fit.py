"""Describe whether a training or an inference fits into the memory of a GPU, and what would make it fit."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.planning.batch_limits import Change


def describe_changes(needed_gb: float, available_gb: float, changes: Sequence[Change]) -> list[str]:
    """Return a sentence that says whether the model fits, and if not, one for each change that would make it fit."""
    fit = describe_fit(needed_gb, available_gb)
    if needed_gb <= available_gb:
        return [fit]
    if not changes:
        return [fit, "No change that is known here makes it fit: use a GPU with more memory, or a smaller model."]
    return [fit, *(f"It would fit with {change.text}: {change.needed_gb:.1f} GB." for change in changes)]


def describe_fit(needed_gb: float, available_gb: float, parts: str = "") -> str:
    """Return the sentence that says whether the needed memory fits.

    Args:
        needed_gb: memory that is needed, GB.
        available_gb: memory of a GPU that is available, GB.
        parts: what `needed_gb` counts, as a plural noun such as "The weights"; empty: everything.
    """
    does_fit = needed_gb <= available_gb
    if parts:
        text = f"{parts} alone {'fit' if does_fit else 'do not fit'}"
    else:
        text = "It fits" if does_fit else "It does not fit"
    return f"{text}: {needed_gb:.1f} GB are needed, and {available_gb:.1f} GB of a GPU are available."
