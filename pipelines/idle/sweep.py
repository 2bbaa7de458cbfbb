"""Find the resources that run and that nobody uses, report what each costs, and stop those that may be stopped."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

from pipelines.costs.charges import format_usd
from pipelines.costs.deployment_forecast import FULL_MONTH_H
from pipelines.costs.prices import find_price
from pipelines.errors import DataError, InvalidError, LeewayError, RetryableError
from pipelines.idle.kinds import Kind, Resource
from pipelines.idle.names import KindName
from pipelines.serving.undeployment import KEEP_TAG
from pipelines.system.aws_errors import translate_aws_errors
from pipelines.system.log import log

T = TypeVar("T")
UseState = Literal["used", "idle", "unknown"]
"""Whether a resource is used; unknown: CloudWatch or SageMaker does not say."""
Outcome = Literal["idle", "exempt", "unknown", "stopped", "used_again", "gone"]
"""idle: only listed. exempt: idle, but it stays: it has the tag leeway:keep, or is an endpoint that Leeway did not
create. unknown: its use is not known, so it is not stopped. used_again: at a second check, right before the stop, it
was used, had changed, or its use was not known. gone: somebody else stopped it meanwhile."""


@dataclass(frozen=True)
class Finding:
    """A resource that was not used at the first check, or whose use was not known."""

    kind: KindName
    name: str
    outcome: Outcome
    usd_month: float | None
    """Cost of a full month at the on-demand price, US dollars; None if a price or the instances are not known."""

    @property
    def label(self) -> str:
        """Kind and name."""
        return f"{self.kind} {self.name}"


def get_now() -> dt.datetime:
    """Return the current moment, UTC."""
    return dt.datetime.now(dt.UTC)


def sweep(
    kinds: Sequence[Kind],
    idle_time: dt.timedelta,
    kinds_to_stop: Collection[KindName],
    region: str,
    clock: Callable[[], dt.datetime] = get_now,
) -> list[Finding]:
    """Find what is idle, log it with its cost, and stop what may be stopped. Idempotent.

    Before a resource is stopped, it is checked again: one that was used or changed in the meantime is not stopped. If
    AWS denies a request for one resource, the sweep continues with the others. If AWS does not answer, or cannot delete
    an endpoint now, the sweep ends. In these cases an error is raised at the end, which says what was stopped.

    Args:
        kinds: the kinds of resources.
        idle_time: time without use after which a resource is idle.
        kinds_to_stop: kinds whose idle resources are stopped; the others are only listed.
        region: region of the prices.
        clock: function that returns the current moment, UTC.

    Raises:
        InvalidError: AWS denies a request or is not set up here, or a table of prices is not valid. A retry cannot
            help.
        RetryableError: AWS or the lake does not answer; or an endpoint cannot be deleted now, for example because it is
            being changed. A retry can help.
    """
    findings: list[Finding] = []
    errors: list[LeewayError] = []
    try:
        for kind in kinds:
            for name in _attempt(kind.list_names, errors) or []:
                examine = partial(_examine, kind, name, idle_time, kinds_to_stop, region, clock)
                if finding := _attempt(examine, errors):
                    findings.append(finding)
    except RetryableError as error:
        errors.insert(0, error)
    if errors:
        raise _join_errors(errors, [finding.label for finding in findings if finding.outcome == "stopped"])
    return findings


def _attempt(call: Callable[[], T], errors: list[LeewayError]) -> T | None:
    """Return the result of a call; None if it was refused. The error is then logged, and added to `errors`.

    Raises:
        RetryableError: AWS or the lake does not answer, or an endpoint cannot be deleted now. A retry can help.
    """
    try:
        with translate_aws_errors("SageMaker or CloudWatch"):
            return call()
    except InvalidError as error:
        log.error("%s", error)
        errors.append(error)
        return None


def _join_errors(errors: Sequence[LeewayError], stopped_labels: Sequence[str]) -> LeewayError:
    """Return the first error, with the number of the others and what was stopped."""
    more_text = f" There are {len(errors) - 1} more error(s) in the log." if len(errors) > 1 else ""
    stopped_text = f" Stopped before: {', '.join(stopped_labels)}." if stopped_labels else ""
    return type(errors[0])(f"{errors[0].message}{more_text}{stopped_text}", errors[0].hint)


def _examine(
    kind: Kind,
    name: str,
    idle_time: dt.timedelta,
    kinds_to_stop: Collection[KindName],
    region: str,
    clock: Callable[[], dt.datetime],
) -> Finding | None:
    """Stop a resource that is not used, if that is allowed, and report it; None if it is used, or has stopped."""
    resource = kind.find(name)
    if resource is None:
        return None
    use_state = find_use_state(kind, resource, idle_time, clock())
    if use_state == "used":
        return None
    # Before the stop, so that an error in the table of prices is not raised when something was already stopped.
    usd_month = _compute_usd_month(kind, resource, region)
    outcome, reason = _stop_if_allowed(kind, resource, use_state, idle_time, kinds_to_stop, clock)
    finding = Finding(kind.name, name, outcome, usd_month)
    _log_finding(finding, resource, reason, idle_time)
    return finding


def find_use_state(kind: Kind, resource: Resource, idle_time: dt.timedelta, now: dt.datetime) -> UseState:
    """Find out whether a resource was used during `idle_time` before `now`. A change counts as a use."""
    begin = now - idle_time
    if resource.changed_at >= begin:
        return "used"
    return {True: "used", False: "idle", None: "unknown"}[kind.is_used(resource, begin, now)]  # type: ignore[return-value]


def _stop_if_allowed(
    kind: Kind,
    resource: Resource,
    use_state: UseState,
    idle_time: dt.timedelta,
    kinds_to_stop: Collection[KindName],
    clock: Callable[[], dt.datetime],
) -> tuple[Outcome, str]:
    """Stop an idle resource if that is allowed. Return what was done, and why an exempt resource stays."""
    if use_state == "unknown":
        return "unknown", ""
    if reason := _find_reason_to_keep(resource):
        return "exempt", reason
    if kind.name not in kinds_to_stop:
        return "idle", ""
    return _check_again_and_stop(kind, resource.name, idle_time, clock)


def _check_again_and_stop(
    kind: Kind, name: str, idle_time: dt.timedelta, clock: Callable[[], dt.datetime]
) -> tuple[Outcome, str]:
    """Stop a resource if it is still idle. Return what was done, and why an exempt resource stays."""
    resource = kind.find(name)
    if resource is None:
        return "gone", ""
    if reason := _find_reason_to_keep(resource):
        return "exempt", reason
    if find_use_state(kind, resource, idle_time, clock()) != "idle":
        return "used_again", ""
    why = f"nobody used it for {_format_duration(idle_time)}"
    # Logged before the stop, so that the log has it even if this process is killed now.
    log.info("%s %s: stopping it, because %s", kind.name, name, why)
    return "stopped" if kind.stop(resource, why) else "gone", ""


def _find_reason_to_keep(resource: Resource) -> str:
    """Return why a resource must not be stopped; empty if it may be stopped."""
    return f"it has the tag {KEEP_TAG}" if KEEP_TAG in resource.tags else resource.reason_to_keep


def _log_finding(finding: Finding, resource: Resource, reason: str, idle_time: dt.timedelta) -> None:
    """Log what was found and done, with the cost of a month."""
    texts = {
        "idle": f"nobody used it for {_format_duration(idle_time)}; it is only listed",
        "exempt": f"nobody used it for {_format_duration(idle_time)}; it stays, because {reason}",
        "unknown": "CloudWatch or SageMaker does not say whether somebody uses it; it is not stopped",
        "stopped": f"nobody used it for {_format_duration(idle_time)}; stopped",
        "used_again": "at a second check it was used or changed, or its use was not known; it is not stopped",
        "gone": "somebody else stopped it meanwhile",
    }
    log.info("%s (%s): %s", finding.label, _format_cost(resource.instances, finding.usd_month), texts[finding.outcome])


def _format_cost(instances: Mapping[str, int] | None, usd_month: float | None) -> str:
    if instances is None:
        return "cost not known"
    types = ", ".join(f"{count} x {name}" for name, count in instances.items()) or "no instance"
    return f"{types}, {'price not known' if usd_month is None else f'{format_usd(usd_month)} a month'}"


def _compute_usd_month(kind: Kind, resource: Resource, region: str) -> float | None:
    """Return the on-demand cost of a full month, USD; None if the instances or a price are not known."""
    if resource.instances is None:
        return None
    try:
        return sum(
            find_price(instance_type, region, kind.component).usd_h * count * FULL_MONTH_H
            for instance_type, count in resource.instances.items()
        )
    except DataError:
        return None


def _format_duration(idle_time: dt.timedelta) -> str:
    minutes = round(idle_time.total_seconds() / 60)
    return f"{minutes // 60} h" if minutes % 60 == 0 else f"{minutes} min"
