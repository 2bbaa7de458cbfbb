"""Find notebooks, apps, endpoints and processing jobs that nobody uses, with their cost; stop those of some kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from pipelines.contract import Result, Spec
from pipelines.idle.names import KINDS, KindName
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.idle.sweep import Finding


class SweepIdleSpec(Spec):
    """The kinds to check, the time after which they are idle, and the kinds to stop. By default, nothing is stopped."""

    kinds: list[KindName] = Field(default=list(KINDS), min_length=1)
    """Kinds to check: notebook (notebook instances), app (Studio apps), endpoint (endpoints; those that Leeway did not
    create are reported, and never stopped), processing (processing jobs)."""
    idle_minutes: int = Field(default=1_440, ge=1, le=86_400)
    """Minutes without use after which a resource is idle. A start or a change counts as a use."""
    cpu_percent: float = Field(default=5.0, gt=0, le=100)
    """CPU utilization from which a notebook instance or a processing job counts as used, percent of one core."""
    stop: list[KindName] = Field(default_factory=list)
    """Kinds whose idle resources are stopped; the others are only listed."""

    @field_validator("kinds", "stop", mode="before")
    @classmethod
    def _split_names(cls, value: Any) -> Any:
        """Accept a text with commas: Jinja and the command line give texts."""
        if not isinstance(value, str):
            return value
        names = [part.strip(" []'\"") for part in value.split(",")]
        return [name for name in names if name]


class SweepIdleResult(Result):
    """The resources that nobody uses. A label is a kind and a name, such as "notebook research"."""

    idle: list[str]
    """Labels of what is idle and was only listed."""
    exempt: list[str]
    """Labels of what is idle and stays, because it has the tag leeway:keep, or is an endpoint that Leeway did not
    create."""
    unknown: list[str]
    """Labels of what may be in use: a metric or the time of the last use is missing, or does not cover all uses. It is
    never stopped."""
    used_again: list[str]
    """Labels of what was used or changed at a second check, or whose use was not known then; not stopped."""
    stopped: list[str]
    """Labels of what this call stopped."""
    usd_month: dict[str, float | None]
    """Maps each label to the cost of a full month at the on-demand price, USD; null if no price is known."""
    stopped_usd_month: float
    """Sum of the known costs of what was stopped, USD."""


def run(spec: SweepIdleSpec) -> SweepIdleResult:
    """List what is idle with its cost, and stop what may be stopped. Idempotent.

    A resource with the tag leeway:keep is never stopped, nor are endpoints that Leeway did not create.

    Raises:
        SpecError: no AWS region is configured, or `stop` has a kind that `kinds` does not have. A retry cannot help.
        InvalidError: AWS denies a request. A retry cannot help.
        ServiceError: AWS does not answer. A retry continues.
    """
    import datetime as dt

    from pipelines.costs.charges import format_usd
    from pipelines.errors import SpecError
    from pipelines.idle.all_kinds import build_kinds
    from pipelines.idle.sweep import sweep
    from pipelines.serving.undeployment import Endpoints

    if other_names := [name for name in spec.stop if name not in spec.kinds]:
        raise SpecError(
            f"stop has {', '.join(other_names)}, and kinds does not.", "Add each to kinds, or remove it from stop."
        )
    endpoints = Endpoints()
    if "endpoint" in spec.stop:
        endpoints.finish_deletions()
    kinds = build_kinds(endpoints, spec.kinds, spec.cpu_percent)
    findings = sweep(kinds, dt.timedelta(minutes=spec.idle_minutes), spec.stop, endpoints.region)
    result = _build_result(findings)
    lists = {"idle": result.idle, "exempt": result.exempt, "stopped": result.stopped}
    sums_usd = {name: sum(result.usd_month[label] or 0.0 for label in labels) for name, labels in lists.items()}
    texts = [f"{len(labels)} {name} ({format_usd(sums_usd[name])} a month)" for name, labels in lists.items()]
    log.info("%s", ", ".join(texts))
    return result


def _build_result(findings: Sequence[Finding]) -> SweepIdleResult:
    labels = {
        outcome: [finding.label for finding in findings if finding.outcome == outcome]
        for outcome in ("idle", "exempt", "unknown", "used_again", "stopped")
    }
    costs = {finding.label: None if finding.usd_month is None else round(finding.usd_month, 2) for finding in findings}
    return SweepIdleResult(
        idle=labels["idle"],
        exempt=labels["exempt"],
        unknown=labels["unknown"],
        used_again=labels["used_again"],
        stopped=labels["stopped"],
        usd_month=costs,
        stopped_usd_month=round(sum(costs[label] or 0.0 for label in labels["stopped"]), 2),
    )
