"""Says whether what a version scored has drifted from what it was trained on, of the profiles up to a day.

A pure function of these profiles: a backfill decides as the daily run did. Idempotent.
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
    from pipelines.monitoring.profiles.record import Record
    from pipelines.monitoring.profiles.table import Profiles
    from pipelines.monitoring.windows import Watched
    from pipelines.registry.versions import Registry


class DriftSpec(Spec):
    """The day to decide on, and of which model."""

    dataset: str = "flights"
    """Dataset of the model."""
    model_name: str
    """Registered model."""
    version: str = ""
    """Version's number; where it is not given, the one that scores the window's last day."""
    partition: dt.date
    """Last day of the window (YYYY-MM-DD)."""
    window_days: Annotated[int, Field(ge=1, le=366)] = 7
    """Days of a window."""
    history_days: Annotated[int, Field(ge=1, le=366)] = 60
    """Windows that are looked at, with the last one: for persistence, for alarms that have not ended, and the page."""
    label_delay_days: Annotated[int, Field(ge=0, le=366)] = 1
    """Days until a day's labels are known: later ones are not looked at, though they may be there."""
    policy: Policy = Policy()
    """When drift is an alarm."""
    backfill: bool = False
    """Whether a backfill asks."""
    in_backfill: bool = False
    """Whether drift that a backfill sees may start a training."""

    @model_validator(mode="after")
    def _may_alarm(self) -> Self:
        if self.policy.at_least > self.history_days:
            looked = f"policy.at_least is {self.policy.at_least} windows, and history_days {self.history_days}"
            raise ValueError(f"{looked}: nothing would ever alarm")
        return self


class DriftResult(Result):
    """What was decided."""

    table: str
    """Table of the findings."""
    partition: dt.date
    """Last day of the window."""
    model_name: str
    """Registered model."""
    version: str = ""
    """Its version; empty where there is none."""
    outcome: Literal["drift", "none", "undecided"]
    """undecided: too few rows, a day without a profile, a version that scored fewer days than a window, no champion."""
    reasons: list[str]
    """The same in words, a line a column."""
    worst: list[str]
    """Columns that drifted, the one furthest over its bound first."""
    as_of: dt.date
    """Moment as of which to retrain: the day after the window."""
    retrain: bool = False
    """Whether a training is to start: on drift; a backfill's only where it may."""
    page: str = ""
    """Address of the page with the pictures; empty where nothing was decided."""
    rows: int = 0
    """Rows of the window."""
    missing: list[dt.date]
    """Days of the window without a profile that may still come: no version scored them, no validation refused them."""
    changed: bool = False
    """Whether the table was changed."""


def run(spec: DriftSpec) -> DriftResult:
    """The decision, whose findings are in the table `drift_results`.

    Raises:
        DataError: there is no such version, it has no reference, or profiles of it are not over that.
        ServiceError: MLflow does not answer. A retry can help.
        ConflictError: others kept writing to the table. A retry can help.
    """
    from pipelines.registry.versions import Registry
    from pipelines.scoring import scores

    registry = Registry.open()
    version = scores.choose_version(registry, spec.model_name, spec.version, spec.partition)
    if version is None:
        why = f"{spec.model_name} has no champion that was trained as of {spec.partition} or before"
        result = _undecided(spec, "", why, [])
    else:
        result = _judged(spec, registry, version)
    log.info("%s up to %s: %s: %s", spec.model_name, spec.partition, result.outcome, "; ".join(result.reasons))
    return result


def _judged(spec: DriftSpec, registry: Registry, version: ModelVersion) -> DriftResult:
    from pipelines.monitoring import drift, windows
    from pipelines.monitoring.profiles.record import of_version
    from pipelines.monitoring.profiles.table import Profiles
    from pipelines.registry.versions import as_of

    number = str(version.version)
    if as_of(version) > spec.partition:  # asked for by its number: none of the days it is watched on is there yet
        why = f"version {number} was trained as of {as_of(version)}, after {spec.partition}"
        return _undecided(spec, number, why, [])
    record = of_version(registry, version)
    kept = Profiles.open()
    first = max(as_of(version), spec.partition - dt.timedelta(spec.window_days + spec.history_days - 2))
    refused = _refused(spec, first)
    found = kept.window(first, spec.partition, spec.model_name, number)
    days = {day: one for day, one in found.items() if day not in refused}  # one may have been scored and withdrawn
    if told := _too_early(spec, number, days, refused, kept):
        return told
    weights = registry.importance(version)
    seen = list(windows.windows(record, days, spec.window_days, weights, spec.policy, spec.label_delay_days, refused))
    if not seen:
        return _undecided(spec, number, "no day of the window was published", [])
    decisions = list(drift.decide_each([one.result for one in seen], spec.policy))
    result = _told(spec, number, decisions[-1], seen[-1].result)
    _draw(spec, number, record, seen, decisions)
    return result


def _refused(spec: DriftSpec, first: dt.date) -> set[dt.date]:
    """Days that failed their validation and are not published, or not any more: nobody will score them as they are.

    The evidence is kept before a day is published: one that passed is on its way.
    """
    from pipelines.dataset import load_dataset
    from pipelines.lake import Lake
    from pipelines.validation.results_table import Evidence

    lake, chosen = Lake.open(), load_dataset(spec.dataset)
    rows = Evidence(lake).newest(chosen.name, first, spec.partition)
    judged = {row["date"] for row in rows if not row["success"] and row["severity"] != "info"}
    return judged - lake.count_rows_of_days(chosen.published, sorted(judged)).keys() if judged else set()


def _too_early(
    spec: DriftSpec, version: str, days: Collection[dt.date], refused: Collection[dt.date], kept: Profiles
) -> DriftResult | None:
    """Why nothing can be said yet: profiles are on their way, or the version has not scored a whole window."""
    window = [spec.partition - dt.timedelta(n) for n in reversed(range(spec.window_days))]
    absent = [day for day in window if day not in days and day not in refused]
    if not absent:
        return None
    since = min(days, default=spec.partition)
    others = kept.scored(window[0], spec.partition, spec.model_name)
    missing = [day for day in absent if day >= since and day not in others]
    if missing:
        more = f" and {len(missing) - 1} more" * (len(missing) > 1)
        return _undecided(spec, version, f"no profile by version {version} of {missing[0]}{more}", missing)
    scored = f"version {version} has not scored {len(absent)} of the window's {spec.window_days} days, as {absent[-1]}"
    return _undecided(spec, version, scored, [])


def _undecided(spec: DriftSpec, version: str, why: str, missing: list[dt.date]) -> DriftResult:
    from pipelines.monitoring import results_table

    told: dict[str, Any] = {"outcome": "undecided", "reasons": [why], "worst": [], "missing": missing}
    return DriftResult(table=results_table.TABLE, version=version, **_about(spec), **told)


def _told(spec: DriftSpec, version: str, decision: Decision, window: WindowResult) -> DriftResult:
    from pipelines.monitoring import results_table

    changed = results_table.keep(spec.partition, spec.model_name, version, decision, window, spec.policy)
    return DriftResult(
        table=results_table.TABLE,
        version=version,
        outcome=decision.outcome,
        reasons=list(decision.reasons),
        worst=list(decision.worst),
        retrain=decision.is_drift and (spec.in_backfill or not spec.backfill),
        page=settings().drift_page(spec.model_name, str(spec.partition)),
        rows=window.rows,
        missing=[],
        changed=changed,
        **_about(spec),
    )


def _draw(
    spec: DriftSpec, version: str, record: Record, seen: Sequence[Watched], decisions: Sequence[Decision]
) -> None:
    """The page is where the data docs are served."""
    from pipelines.monitoring.drift import report

    first = spec.partition - dt.timedelta(spec.window_days - 1)
    facts = {
        "model": spec.model_name,
        "version": version,
        "window": f"{first} to {spec.partition}, {seen[-1].result.rows:,} rows",
        "labels": f"known up to {spec.partition - dt.timedelta(spec.label_delay_days)}",
        "reference": record.reference.digest,
    }
    folder = settings().home / "docs" / "drift" / spec.model_name / str(spec.partition)
    report.make(folder, report.Seen(record, seen, decisions, spec.policy, facts))


def _about(spec: DriftSpec) -> dict[str, Any]:
    return {
        "partition": spec.partition,
        "model_name": spec.model_name,
        "as_of": spec.partition + dt.timedelta(1),
    }
