"""Decide whether the rows that a version scored have drifted from those that it was trained on.

The decision depends only on the profiles up to a day, so a backfill makes the same decision as the daily run.
Idempotent.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from pipelines.contract import Result, Spec
from pipelines.monitoring.drift import Policy
from pipelines.monitoring.drift.finding import PERFORMANCE
from pipelines.partitions import refuse_monthly_partitions
from pipelines.settings import settings
from pipelines.system.log import log
from pipelines.window import Days

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mlflow.entities.model_registry import ModelVersion

    from pipelines.monitoring.drift import Decision, WindowResult
    from pipelines.monitoring.profiles.record import ReferenceRecord
    from pipelines.monitoring.profiles.table import Profiles
    from pipelines.monitoring.windows import ComparedWindow
    from pipelines.registry.versions import Registry


class DriftSpec(Spec):
    """The model, and the windows to compare with its reference."""

    dataset: str
    """Dataset of the model."""
    model: str
    """Registered model."""
    version: str = ""
    """Number of the version; empty: the one that scores the last day of the window."""
    partition: dt.date
    """Last day of the window (YYYY-MM-DD)."""
    window_days: Annotated[int, Field(ge=1, le=366)] = 7
    """Length of a window, days."""
    history_days: Annotated[int, Field(ge=1, le=366)] = 60
    """Number of windows to compare, one for each day, including the last. Alarms depend on earlier windows."""
    label_delay_days: Annotated[int, Field(ge=0, le=366)] = 1
    """Days until the labels of a day are known. Labels of that many newest days are not used, even if they exist."""
    policy: Policy = Policy()
    """When drift raises an alarm: the bounds, and how many windows must be over them."""
    retrain_on: Literal["any", "performance"] = "any"
    """Drift that requests a training. any: an alarm of any column. performance: an alarm of the model's performance,
    measured or estimated; drift of other columns is then an alarm that requests no training."""
    backfill: bool = False
    """Whether this run is a backfill."""
    retrain_in_backfill: bool = False
    """Whether drift found by a backfill may start a training."""

    @model_validator(mode="after")
    def _check_history(self) -> Self:
        if self.policy.at_least > self.history_days:
            problem = f"policy.at_least is {self.policy.at_least} windows, and history_days {self.history_days}"
            raise ValueError(f"{problem}: there would never be an alarm")
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
    """Number of the version; empty if there is none."""
    outcome: Literal["drift", "none", "undecided"]
    """undecided: too few rows, a day without a profile, a version that has not scored a full window, or no champion."""
    reasons: list[str]
    """The reasons for the outcome; for an alarm, one for each column that drifted."""
    drifted_columns: list[str]
    """Columns that drifted, sorted by how far they are over their bounds, the farthest first."""
    as_of: dt.date
    """Moment of a retraining: the day after the window."""
    overdue_reason: str = ""
    """Why the model is trained again even without drift: the last training is too old. Empty if it is not too old."""
    retrain: bool = False
    """Whether to request a training: on drift that `retrain_on` names, or if a training is overdue; in a backfill, only
    if `retrain_in_backfill` allows it. False if `missing` is not empty."""
    page: str = ""
    """Address of the page with the charts; empty if no page was written, for example without a champion."""
    rows: int = 0
    """Rows of the window."""
    missing: list[dt.date]
    """Days of the window whose profile may still be made or completed: validation did not refuse them, and no version
    has a profile of them, or the profile of this version lacks rows."""
    changed: bool = False
    """Whether this call changed the table."""


def run(spec: DriftSpec) -> DriftResult:
    """Decide on the last window, and write the findings to the table `drift_results`.

    Raises:
        SpecError: the dataset has partitions by month. A retry cannot help.
        DataError: there is no such version, it has no reference, or its profiles belong to another reference. A retry
            cannot help.
        ServiceError: MLflow does not answer. A retry can help.
        ConflictError: other processes kept writing to the table. A retry can help.
    """
    from pipelines.dataset import load_dataset
    from pipelines.registry.versions import Registry
    from pipelines.scoring import scores

    refuse_monthly_partitions(load_dataset(spec.dataset), "drift")
    registry = Registry.open()
    version = scores.choose_version(registry, spec.model, spec.version, spec.partition)
    if version is None:
        reason = f"{spec.model} has no champion that was trained as of {spec.partition} or before"
        result = _build_undecided_result(spec, version="", reason=reason, missing_days=[])
    else:
        result = _add_training_request(spec, _decide(spec, registry, version), version)
    reasons = "; ".join([*result.reasons, *filter(None, [result.overdue_reason])])
    log.info("%s up to %s: %s: %s", spec.model, spec.partition, result.outcome, reasons)
    return result


def _add_training_request(spec: DriftSpec, result: DriftResult, version: ModelVersion) -> DriftResult:
    """Add to the decision whether a training is overdue, and whether to request one."""
    from pipelines.dataset import load_dataset
    from pipelines.loop.facts import explain_age
    from pipelines.registry.versions import read_as_of

    if result.missing:  # the decision is repeated once these profiles exist
        return result
    overdue_reason = explain_age(spec.model, load_dataset(spec.dataset), read_as_of(version), result.as_of)
    is_requested = bool(overdue_reason) or _requests_training(spec, result)
    retrain = is_requested and (spec.retrain_in_backfill or not spec.backfill)
    return result.model_copy(update={"overdue_reason": overdue_reason, "retrain": retrain})


def _requests_training(spec: DriftSpec, result: DriftResult) -> bool:
    """Return whether the result is drift that requests a training."""
    names = [column.partition("/")[0] for column in result.drifted_columns]
    is_relevant = spec.retrain_on == "any" or PERFORMANCE in names
    return result.outcome == "drift" and is_relevant


def _decide(spec: DriftSpec, registry: Registry, version: ModelVersion) -> DriftResult:
    """Compare the windows up to the day; write the findings and the page, and return the decision."""
    from pipelines.dataset import load_dataset
    from pipelines.lake import Lake
    from pipelines.monitoring import day_status, drift, windows
    from pipelines.monitoring.profiles.record import load_record
    from pipelines.monitoring.profiles.table import Profiles
    from pipelines.registry.artifacts import download_importance
    from pipelines.registry.versions import read_as_of

    version_number = str(version.version)
    if read_as_of(version) > spec.partition:  # possible if `spec.version` names the version
        reason = f"version {version_number} was trained as of {read_as_of(version)}, after {spec.partition}"
        return _build_undecided_result(spec, version_number, reason, missing_days=[])
    record = load_record(registry, version)
    table = Profiles.open()
    # Each window begins a day after the one before it; the earliest one begins here.
    first_day = max(read_as_of(version), spec.partition - dt.timedelta(spec.window_days + spec.history_days - 2))
    lake, dataset = Lake.open(), load_dataset(spec.dataset)
    refused_days = day_status.list_refused_days(lake, dataset, Days(first_day, spec.partition))
    all_profiles = table.read_window(first_day, spec.partition, spec.model, version_number)
    profiles = day_status.select_complete_days(lake, dataset, all_profiles, spec.model, version_number)
    incomplete_days = all_profiles.keys() - profiles.keys()
    # A day may have been scored and then refused, with its published rows removed (`withdraw` of `validate`).
    profiles = {day: profile for day, profile in profiles.items() if day not in refused_days}
    if result := _explain_incomplete_window(spec, version_number, profiles, refused_days, incomplete_days, table):
        return result
    weights = download_importance(registry, version)
    compared_windows = list(
        windows.compare_windows(
            record, profiles, spec.window_days, weights, spec.policy, spec.label_delay_days, refused_days
        )
    )
    if not compared_windows:
        return _build_undecided_result(spec, version_number, "no day of the window was published", missing_days=[])
    decisions = list(drift.decide_each([window.result for window in compared_windows], spec.policy))
    result = _write_decision(spec, version_number, decisions[-1], compared_windows[-1].result)
    _write_page(spec, version_number, record, compared_windows, decisions)
    return result


def _explain_incomplete_window(
    spec: DriftSpec,
    version: str,
    profiled_days: Collection[dt.date],
    refused_days: Collection[dt.date],
    incomplete_days: Collection[dt.date],
    table: Profiles,
) -> DriftResult | None:
    """Return an undecided result if a day of the window has no profile by this version, and was not refused.

    The result's `missing` lists the days whose profile may still be made. Return None if the window is complete.
    """
    window = list(Days(spec.partition - dt.timedelta(spec.window_days - 1), spec.partition))
    days_without_profile = [day for day in window if day not in profiled_days and day not in refused_days]
    if not days_without_profile:
        return None
    first_profiled_day = min([*profiled_days, *incomplete_days], default=spec.partition)
    # Days of which any version has a profile, without those whose profile by this version lacks rows.
    days_of_any_version = table.find_profiled_days(window[0], spec.partition, spec.model).difference(incomplete_days)
    missing_days = [day for day in days_without_profile if day >= first_profiled_day and day not in days_of_any_version]
    if missing_days:
        rest_text = f" and {len(missing_days) - 1} more days" if len(missing_days) > 1 else ""
        reason = f"no profile by version {version} of {missing_days[0]}{rest_text}"
        return _build_undecided_result(spec, version, reason, missing_days)
    example, count = days_without_profile[-1], len(days_without_profile)
    reason = f"version {version} has not scored {count} of the window's {spec.window_days} days, such as {example}"
    return _build_undecided_result(spec, version, reason, missing_days=[])


def _build_undecided_result(spec: DriftSpec, version: str, reason: str, missing_days: list[dt.date]) -> DriftResult:
    from pipelines.monitoring import results_table

    fields: dict[str, Any] = {
        "outcome": "undecided",
        "reasons": [reason],
        "drifted_columns": [],
        "missing": missing_days,
    }
    return DriftResult(table=results_table.TABLE, version=version, **_build_common_fields(spec), **fields)


def _write_decision(spec: DriftSpec, version: str, decision: Decision, window: WindowResult) -> DriftResult:
    from pipelines.monitoring import results_table

    is_changed = results_table.write_findings(spec.partition, spec.model, version, decision, window, spec.policy)
    return DriftResult(
        table=results_table.TABLE,
        version=version,
        outcome=decision.outcome,
        reasons=list(decision.reasons),
        drifted_columns=list(decision.drifted_columns),
        page=settings().build_drift_url(spec.model, str(spec.partition)),
        rows=window.rows,
        missing=[],
        changed=is_changed,
        **_build_common_fields(spec),
    )


def _write_page(
    spec: DriftSpec,
    version: str,
    record: ReferenceRecord,
    compared_windows: Sequence[ComparedWindow],
    decisions: Sequence[Decision],
) -> None:
    """Write the page of the decision to the folder of the data docs."""
    from pipelines.monitoring import report
    from pipelines.pages.reports import Report, publish_report

    first_day = spec.partition - dt.timedelta(spec.window_days - 1)
    facts = {
        "model": spec.model,
        "version": version,
        "window": f"{first_day} to {spec.partition}, {compared_windows[-1].result.rows:,} rows",
        "labels": f"known up to {spec.partition - dt.timedelta(spec.label_delay_days)}",
        "reference": record.reference.digest,
    }
    decision = decisions[-1]
    published_report = Report(
        *("drift", spec.model, str(spec.partition), report.PAGE),
        *(decision.outcome, "; ".join(decision.reasons), f"version {version}"),
    )
    report.write_report(
        published_report.folder, report.DriftHistory(record, compared_windows, decisions, spec.policy, facts)
    )
    publish_report(published_report)


def _build_common_fields(spec: DriftSpec) -> dict[str, Any]:
    return {
        "partition": spec.partition,
        "model_name": spec.model,
        "as_of": spec.partition + dt.timedelta(1),
    }
