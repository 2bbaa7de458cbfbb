"""The steps: one module per step, named by its verb. Heavy libraries are imported only when a step runs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from pipelines.contract import Result, Spec

STEPS = (
    *("ingest", "validate", "withdraw"),
    *("snapshot", "preprocess", "divide", "tune", "train", "evaluate", "gate", "decide", "promote", "rollback"),
    *("guard", "record_outcome", "reset_breaker"),
    *("materialize", "score", "outcomes", "list_versions", "collect", "profile", "drift", "skew"),
    *("serving", "shadow", "record_deployment", "undeploy", "stop_idle", "sweep_idle"),
    *("forecast_deployment", "meter_endpoints"),
    *("sync", "backfill", "repro", "reproduce", "pack", "batch", "image", "choose_instance", "budget", "charge"),
    *("record_tuning", "check_lake", "key_figures", "showback"),
)
"""The steps in the order of use: first from ingestion to rollback, then before and after a training, then for each day
that the champion scores, then those of endpoints, then the others."""


def get_class_prefix(step: str) -> str:
    """Return the beginning of a step's class names: `RecordOutcome` for `record_outcome`."""
    return "".join(word.capitalize() for word in step.split("_"))


def load_spec_class(step: str) -> type[Spec]:
    """Return the Spec class of a step of `STEPS`."""
    return _load_attribute(step, f"{get_class_prefix(step)}Spec")  # type: ignore[no-any-return]


def load_result_class(step: str) -> type[Result]:
    """Return the Result class of a step of `STEPS`."""
    return _load_attribute(step, f"{get_class_prefix(step)}Result")  # type: ignore[no-any-return]


def load_run_function(step: str) -> Callable[[Any], Result]:
    """Return the function `run` of a step of `STEPS`."""
    return _load_attribute(step, "run")  # type: ignore[no-any-return]


def read_summary(step: str) -> str:
    """Return the first line of the docstring of a step's module."""
    return str(import_module(f"pipelines.steps.{step}").__doc__).splitlines()[0]


def _load_attribute(step: str, name: str) -> Any:
    return getattr(import_module(f"pipelines.steps.{step}"), name)
