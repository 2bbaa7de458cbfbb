"""Evaluate the scaling policies of variants, and change their numbers of instances."""

import logging
import math
import threading
import time
import weakref
from dataclasses import replace
from datetime import timedelta
from typing import Any

from moto.applicationautoscaling.models import applicationautoscaling_backends
from moto.cloudwatch.models import cloudwatch_backends
from moto.core.utils import utcnow

from drydock.autoscaling.activities import ScalingActivity
from drydock.autoscaling.backend import VariantAutoscaling
from drydock.autoscaling.decisions import TargetTracking, apply_steps
from drydock.autoscaling.rules import find_instance_limit
from drydock.autoscaling.targets import DIMENSION
from drydock.cloudwatch.alarms import ALARM, read_last_value
from drydock.cloudwatch.statistics import read_statistic
from drydock.endpoints.endpoint import Endpoint
from drydock.endpoints.records import Variant
from drydock.endpoints.sizes import VariantSize
from drydock.resources import Owner

log = logging.getLogger(__name__)

CHECK_S = 0.5
"""Seconds between two evaluations of all scalable targets; shorter if the period of target tracking is shorter."""
DEFAULT_COOLDOWN_S = 300
"""Seconds after a change in which a policy without a cooldown of its own changes nothing: AWS's default."""
MINUTE_S = 60.0


class Scaler:
    """Evaluates the policies of all accounts and regions in a thread of its own.

    Args:
        period_s: Seconds of a period of target tracking (AWS: 60). A target for the number of requests is a number per
            minute, even if the period is not a minute.
    """

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._stop_event = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scaling", daemon=True)
        # The keys of the next two mappings are policies. If a client puts a policy again, moto creates a new object,
        # which has no values yet.
        self._trackings: weakref.WeakKeyDictionary[Any, TargetTracking] = weakref.WeakKeyDictionary()
        self._invocation_counts: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
        # The time.monotonic() at which this scaler last changed a variant, by owner and id of the variant.
        self._changed_at: dict[tuple[Owner, str], float] = {}
        self._unfinished_activities: list[tuple[Endpoint, ScalingActivity]] = []

    def start(self) -> None:
        """Start to evaluate the policies."""
        self._thread.start()

    def close(self) -> None:
        """Stop evaluating, without waiting for an evaluation that is in progress."""
        self._stop_event.set()

    def _run(self) -> None:
        period_ends_at = time.monotonic() + self._period_s
        while not self._stop_event.wait(min(CHECK_S, self._period_s)):
            is_period_over = time.monotonic() >= period_ends_at
            if is_period_over:
                period_ends_at = time.monotonic() + self._period_s
            self._end_activities()
            for _, _, backend in list(applicationautoscaling_backends.iter_backends()):
                for target in list(backend.targets.get(DIMENSION, {}).values()):
                    try:
                        self._evaluate(backend, target, is_period_over)
                    except Exception:  # the other targets must be evaluated
                        log.exception("scalable target %s: internal error", target.resource_id)

    def _end_activities(self) -> None:
        """End the activities whose endpoints are not being updated any more."""
        for endpoint, activity in list(self._unfinished_activities):
            if endpoint.status != "Updating":
                activity.end(endpoint.record.reason)
                self._unfinished_activities.remove((endpoint, activity))

    def _evaluate(self, backend: VariantAutoscaling, target: Any, is_period_over: bool) -> None:
        """Change the number of instances of a scalable target, if its range or one of its policies requires it."""
        endpoint_and_name = backend.find_variant(target.resource_id)
        if endpoint_and_name is None:
            return
        endpoint, name = endpoint_and_name
        variant = next(item for item in endpoint.record.plan.variants if item.name == name)
        policies = [item for item in list(backend.policies.values()) if item.resource_id == target.resource_id]
        if is_period_over:
            for policy in policies:
                self._measure(backend, endpoint, variant, policy)
        if endpoint.status != "InService":
            return
        # Other variants may have got more instances since the target was registered.
        limit = max(find_instance_limit(endpoint.record.plan, name), variant.count)
        low, high = min(int(target.min_capacity), limit), min(int(target.max_capacity), limit)
        if not low <= variant.count <= high:
            count = min(max(variant.count, low), high)
            return self._change(backend, endpoint, variant, count, f"the range is {low} to {high}")
        decisions = [(self._decide(backend, variant, policy), policy) for policy in policies]
        # As on AWS, the policy that wants the most instances decides.
        count, policy = max(decisions, key=lambda item: item[0], default=(variant.count, None))
        count = min(max(count, low), high)
        if (
            count != variant.count
            and policy is not None
            and self._may_change(endpoint.owner, target, policy, count > variant.count)
        ):
            self._change(backend, endpoint, variant, count, f"policy {policy.policy_name} was triggered")

    def _measure(self, backend: VariantAutoscaling, endpoint: Endpoint, variant: Variant, policy: Any) -> None:
        """Add the last period's value of the metric, if there is one, to the values of a target tracking policy."""
        config = policy.target_tracking_scaling_policy_configuration
        if not config:
            return
        tracking = self._trackings.setdefault(policy, TargetTracking(config["TargetValue"]))
        if metric := config.get("CustomizedMetricSpecification"):
            value = read_custom_metric(backend, metric)
            if value is not None:
                tracking.add(value)
            return
        count = backend.endpoints.metrics.count_invocations(endpoint.owner, endpoint.name, variant.name)
        previous_count = self._invocation_counts.get(policy, count)
        self._invocation_counts[policy] = count
        if variant.count:
            tracking.add((count - previous_count) * MINUTE_S / self._period_s / variant.count)

    def _decide(self, backend: VariantAutoscaling, variant: Variant, policy: Any) -> int:
        """Return the number of instances that a policy wants; the present number if it wants no change."""
        if tracking := self._trackings.get(policy):
            return tracking.decide(variant.count)
        steps = policy.step_scaling_policy_configuration
        cloudwatch = cloudwatch_backends[backend.account_id][backend.region_name]
        for alarm in list(cloudwatch.alarms.values()) if steps else ():
            if alarm.state_value == ALARM and policy.policy_arn in (alarm.alarm_actions or ()):
                value = read_last_value(cloudwatch, alarm)
                breach = 0.0 if value is None else value - float(alarm.threshold)
                return max(apply_steps(steps, variant.count, breach), 0)
        return variant.count

    def _may_change(self, owner: Owner, target: Any, policy: Any, is_scale_out: bool) -> bool:
        """Return whether a policy may change the variant now.

        Scaling in this direction must be neither suspended nor disabled, and the policy's cooldown must have passed
        since the scaler's last change of the variant, whatever its cause.
        """
        state = target.suspended_state or {}
        if state.get("DynamicScalingOutSuspended" if is_scale_out else "DynamicScalingInSuspended"):
            return False
        config = policy.target_tracking_scaling_policy_configuration or {}
        if config.get("DisableScaleIn") and not is_scale_out:
            return False
        steps = policy.step_scaling_policy_configuration or {}
        cooldown_key = "ScaleOutCooldown" if is_scale_out else "ScaleInCooldown"
        cooldown_s = (
            steps.get("Cooldown", DEFAULT_COOLDOWN_S) if steps else config.get(cooldown_key, DEFAULT_COOLDOWN_S)
        )
        return bool(time.monotonic() - self._changed_at.get((owner, target.resource_id), -math.inf) >= cooldown_s)

    def _change(
        self, backend: VariantAutoscaling, endpoint: Endpoint, variant: Variant, count: int, cause: str
    ) -> None:
        resource_id = f"endpoint/{endpoint.name}/variant/{variant.name}"
        sizes = {item.name: VariantSize.from_variant(item) for item in endpoint.record.plan.variants}
        sizes[variant.name] = replace(sizes[variant.name], count=count)
        if not endpoint.scale(sizes):
            return
        log.info("%s: %d instances, because %s", resource_id, count, cause)
        self._changed_at[endpoint.owner, resource_id] = time.monotonic()
        for policy in backend.policies.values():
            if policy.resource_id == resource_id and policy in self._trackings:
                self._trackings[policy].clear()
        activity = ScalingActivity(resource_id, count, cause)
        backend.activities.appendleft(activity)
        self._unfinished_activities.append((endpoint, activity))


def read_custom_metric(backend: VariantAutoscaling, metric: dict[str, Any]) -> float | None:
    """Return the value of a CustomizedMetricSpecification in the previous and the current minute; None without data."""
    cloudwatch = cloudwatch_backends[backend.account_id][backend.region_name]
    dimensions = {item["Name"]: item["Value"] for item in metric.get("Dimensions", ())}
    begin = utcnow().replace(second=0, microsecond=0) - timedelta(minutes=1)
    return read_statistic(cloudwatch, metric["Namespace"], metric["MetricName"], dimensions, metric["Statistic"], begin)
