"""The steps, one verb a module. Importing a step is light; its work is imported when it runs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from pipelines.contract import Result, Spec

STEPS = (
    *("ingest", "validate", "snapshot", "preprocess", "train", "evaluate", "gate", "decide", "promote", "rollback"),
    *("guard", "record_outcome"),
    *("score", "outcomes", "profile", "drift"),
    *("sync", "backfill", "repro", "reproduce", "pack", "batch", "image", "budget", "charge"),
)
"""In the order of the data's way; what stands around a training; what the champion does, a day at a time; then those
that serve them: changes, many days, DVC's stages, windows for processing jobs, partitions for transform jobs, images,
money."""


def class_prefix(step: str) -> str:
    """Return how the classes of a step begin: `RecordOutcome` of `record_outcome`."""
    return "".join(word.capitalize() for word in step.split("_"))


def spec_of(step: str) -> type[Spec]:
    """The Spec class of a step of `STEPS`."""
    return _part(step, f"{class_prefix(step)}Spec")  # type: ignore[no-any-return]


def result_of(step: str) -> type[Result]:
    """The Result class of a step of `STEPS`."""
    return _part(step, f"{class_prefix(step)}Result")  # type: ignore[no-any-return]


def runner_of(step: str) -> Callable[[Any], Result]:
    """The `run` of a step of `STEPS`."""
    return _part(step, "run")  # type: ignore[no-any-return]


def summary_of(step: str) -> str:
    """The first line of a step's module docstring."""
    return str(import_module(f"pipelines.steps.{step}").__doc__).splitlines()[0]


def _part(step: str, name: str) -> Any:
    return getattr(import_module(f"pipelines.steps.{step}"), name)
