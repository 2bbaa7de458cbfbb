"""Decide whether the rows that a version scored have drifted from those that it was trained on.

The decision depends only on the profiles up to a day, so a backfill decides as the daily run did. Idempotent.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from pipelines.contract import Result, Spec
from pipelines.monitoring.drift import Policy
from pipelines.settings import settings
from pipelines.system.log import log

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mlflow.entities.model_registry import ModelVersion

    from pipelines.monitoring.drift import Decision, WindowResult
    from pipelines.monitoring.profiles.record import ReferenceRecord
    from pipelines.monitoring.profiles.table import Profiles
    from pipelines.monitoring.windows import ComparedWindow
    from pipelines.registry.versions import Registry


class DriftSpec(Spec):
    """The model, and the day to decide on."""

    dataset: str = "flights"
    """Dataset of the model."""
    model_name: str
    """Registered model."""
    version: str = ""
    """Number of the version; empty: the one that scores the last day of the window."""
    partition: dt.date
    """Last day of the window (YYYY-MM-DD)."""
    window_days: Annotated[int, Field(ge=1, le=366)] = 7
    """Length of a window, days."""
    history_days: Annotated[int, Field(ge=1, le=366)] = 60
    """Number of windows to compare, with the last one: alarms depend on earlier windows, and the page shows them."""
    label_delay_days: Annotated[int, Field(ge=0, le=366)] = 1
    """Days until the labels of a day are known. Labels of later days are not used, even where they exist."""
    policy: Policy = Policy()
    """When drift is an alarm."""
    backfill: bool = False
    """Whether this run is a backfill."""
    retrain_in_backfill: bool = False
    """Whether drift found by a backfill may start a training."""

    @model_validator(mode="after")
    def _check_history(self) -> Self:
        if self.policy.at_least > self.history_days:
            values = f"policy.at_least is {self.policy.at_least} windows, and history_days {self.history_days}"
            raise ValueError(f"{values}: there would never be an alarm")
        return self


class DriftResult(Result):
    """The decision."""

    table: str
    """Table of the findings."""
    partition: dt.date
    """Last day of the window."""
    model_name: str
    """Registered model."""
    version: str = ""
    """Number of the version; empty where there is none."""
    outcome: Literal["drift", "none", "undecided"]
    """undecided: too few rows, a day without a profile, a version that has not scored a full window, or no champion."""
    reasons: list[str]
    """Why, one sentence for each column."""
    worst: list[str]
    """Columns that drifted; the one furthest over its bound comes first."""
    as_of: dt.date
    """As_of for retraining: the day after the window."""
    retrain: bool = False
    """Whether to start a training: on drift; in a backfill only where `retrain_in_backfill` allows it."""
    page: str = ""
    """Address of the page with the charts; empty where the outcome is undecided."""
    rows: int = 0
    """Rows of the window."""
    missing: list[dt.date]
    """Days of the window whose profile may still come: no version scored them, and validation did not refuse them."""
    changed: bool = False
    """Whether the table changed."""


def run(spec: DriftSpec) -> DriftResult:
    """Decide on the day, and write the findings to the table `drift_results`.

    Raises:
        DataError: there is no such version, it has no reference, or its profiles belong to another reference. A retry
            cannot help.
        ServiceError: MLflow does not answer. A retry can help.
        ConflictError: other processes kept writing to the table. A retry can help.
    """
    from pipelines.registry.versions import Registry
    from pipelines.scoring import scores

    registry = Registry.open()
    version = scores.choose_version(registry, spec.model_name, spec.version, spec.partition)
    if version is None:
        reason = f"{spec.model_name} has no champion that was trained as of {spec.partition} or before"
        result = _build_undecided_result(spec, "", reason, [])
    else:
        result = _decide(spec, registry, version)
    log.info("%s up to %s: %s: %s", spec.model_name, spec.partition, result.outcome, "; ".join(result.reasons))
    return result


def _decide(spec: DriftSpec, registry: Registry, version: ModelVersion) -> DriftResult:
    from pipelines.monitoring import drift, windows
    from pipelines.monitoring.profiles.record import load_record
    from pipelines.monitoring.profiles.table import Profiles
    from pipelines.registry.artifacts import download_importance
    from pipelines.registry.versions import read_as_of

    number = str(version.version)
    if read_as_of(version) > spec.partition:  # a version given by its number: it serves only from its as_of on
        reason = f"version {number} was trained as of {read_as_of(version)}, after {spec.partition}"
        return _build_undecided_result(spec, number, reason, [])
    record = load_record(registry, version)
    table = Profiles.open()
    first = max(read_as_of(version), spec.partition - dt.timedelta(spec.window_days + spec.history_days - 2))
    refused = _list_refused_days(spec, first)
    profiles = table.read_window(first, spec.partition, spec.model_name, number)
    # A day may have been scored and then withdrawn.
    days = {day: profile for day, profile in profiles.items() if day not in refused}
    if result := _check_complete(spec, number, days, refused, table):
        return result
    weights = download_importance(registry, version)
    compared = list(
        windows.compare_windows(record, days, spec.window_days, weights, spec.policy, spec.label_delay_days, refused)
    )
    if not compared:
        return _build_undecided_result(spec, number, "no day of the window was published", [])
    decisions = list(drift.decide_each([window.result for window in compared], spec.policy))
    result = _write_decision(spec, number, decisions[-1], compared[-1].result)
    _write_page(spec, number, record, compared, decisions)
    return result


def _list_refused_days(spec: DriftSpec, first: dt.date) -> set[dt.date]:
    """List the days that failed validation and are not published now, so that nobody will score them as they are.

    Evidence is written before a day is published, so a day that passed is not in the list, published or not.
    """
    from pipelines.dataset import load_dataset
    from pipelines.lake import Lake
    from pipelines.validation.results_table import Evidence

    lake, dataset = Lake.open(), load_dataset(spec.dataset)
    rows = Evidence(lake).read_newest(dataset.name, first, spec.partition)
    failed = {row["date"] for row in rows if not row["success"] and row["severity"] != "info"}
    return failed - lake.count_rows_of_days(dataset.published, sorted(failed)).keys() if failed else set()


def _check_complete(
    spec: DriftSpec, version: str, days: Collection[dt.date], refused: Collection[dt.date], table: Profiles
) -> DriftResult | None:
    """Return an undecided result where profiles are still to come or the version has not scored a whole window."""
    window = [spec.partition - dt.timedelta(n) for n in reversed(range(spec.window_days))]
    absent = [day for day in window if day not in days and day not in refused]
    if not absent:
        return None
    since = min(days, default=spec.partition)
    scored_by_others = table.find_scored_days(window[0], spec.partition, spec.model_name)
    missing = [day for day in absent if day >= since and day not in scored_by_others]
    if missing:
        more = f" and {len(missing) - 1} more" * (len(missing) > 1)
        return _build_undecided_result(spec, version, f"no profile by version {version} of {missing[0]}{more}", missing)
    reason = f"version {version} has not scored {len(absent)} of the window's {spec.window_days} days, as {absent[-1]}"
    return _build_undecided_result(spec, version, reason, [])


def _build_undecided_result(spec: DriftSpec, version: str, reason: str, missing: list[dt.date]) -> DriftResult:
    from pipelines.monitoring import results_table

    fields: dict[str, Any] = {"outcome": "undecided", "reasons": [reason], "worst": [], "missing": missing}
    return DriftResult(table=results_table.TABLE, version=version, **_build_common_fields(spec), **fields)


def _write_decision(spec: DriftSpec, version: str, decision: Decision, window: WindowResult) -> DriftResult:
    from pipelines.monitoring import results_table

    changed = results_table.write_findings(spec.partition, spec.model_name, version, decision, window, spec.policy)
    return DriftResult(
        table=results_table.TABLE,
        version=version,
        outcome=decision.outcome,
        reasons=list(decision.reasons),
        worst=list(decision.worst),
        retrain=decision.is_drift and (spec.retrain_in_backfill or not spec.backfill),
        page=settings().build_drift_url(spec.model_name, str(spec.partition)),
        rows=window.rows,
        missing=[],
        changed=changed,
        **_build_common_fields(spec),
    )


def _write_page(
    spec: DriftSpec,
    version: str,
    record: ReferenceRecord,
    compared: Sequence[ComparedWindow],
    decisions: Sequence[Decision],
) -> None:
    """Write the page to the folder of the data docs."""
    from pipelines.monitoring import report

    first = spec.partition - dt.timedelta(spec.window_days - 1)
    facts = {
        "model": spec.model_name,
        "version": version,
        "window": f"{first} to {spec.partition}, {compared[-1].result.rows:,} rows",
        "labels": f"known up to {spec.partition - dt.timedelta(spec.label_delay_days)}",
        "reference": record.reference.digest,
    }
    folder = settings().home / "docs" / "drift" / spec.model_name / str(spec.partition)
    report.write_report(folder, report.DriftHistory(record, compared, decisions, spec.policy, facts))


def _build_common_fields(spec: DriftSpec) -> dict[str, Any]:
    return {
        "partition": spec.partition,
        "model_name": spec.model_name,
        "as_of": spec.partition + dt.timedelta(1),
    }
