"""Evaluate the alarms of CloudWatch that watch a single metric. moto only stores alarms, and never evaluates them."""

import logging
import threading
import weakref
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from moto.cloudwatch.models import CloudWatchBackend, cloudwatch_backends
from moto.core.utils import utcnow

from drydock.cloudwatch.actions import AlarmActions
from drydock.cloudwatch.alarm_rules import COMPARISONS, find_evaluation_problem
from drydock.cloudwatch.statistics import PercentileStatistics, list_data
from drydock.resources import Owner

log = logging.getLogger(__name__)

EVALUATE_S = 0.5
"""Seconds between two evaluations of all alarms."""
OK, ALARM, NO_DATA = "OK", "ALARM", "INSUFFICIENT_DATA"
GROWING_STATISTICS = ("Sum", "Maximum", "SampleCount")
"""Statistics that only grow within a period: above the threshold now, they are above it at the period's end, too.

A sum of values of which some are negative can become smaller again. This is ignored.
"""


class AlarmEvaluator:
    """Evaluates the alarms of all accounts and regions in a thread of its own.

    An alarm is evaluated over its last complete periods. If the current period already breaches the threshold and
    cannot return below it, the current period replaces the oldest of them. As on AWS, a state that SetAlarmState has
    set lasts until the next evaluation gives another result, or until the next period.
    """

    def __init__(self) -> None:
        self._stop_event = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alarms", daemon=True)
        # The last result of each alarm, and the beginning of the period in which it was computed. If a client
        # replaces an alarm, moto creates a new object, which has no result yet.
        self._results: weakref.WeakKeyDictionary[Any, tuple[str, datetime]] = weakref.WeakKeyDictionary()
        self._actions = AlarmActions()

    def start(self) -> None:
        """Start to evaluate the alarms."""
        self._thread.start()

    def close(self) -> None:
        """Stop the evaluations, without waiting for the end of the present one."""
        self._stop_event.set()

    def _run(self) -> None:
        while not self._stop_event.wait(EVALUATE_S):
            alarms = [
                (backend, alarm)
                for _, _, backend in list(cloudwatch_backends.iter_backends())
                for alarm in list(backend.alarms.values())
            ]
            self._actions.forget_deleted_alarms({alarm.alarm_arn for _, alarm in alarms})
            for backend, alarm in alarms:
                try:
                    self._actions.execute(alarm, backend.account_id)  # the state may come from SetAlarmState
                    self.evaluate(backend, alarm)
                    self._actions.execute(alarm, backend.account_id)
                except Exception:  # the other alarms must be evaluated
                    log.exception("alarm %s: internal error", alarm.name)

    def evaluate(self, backend: CloudWatchBackend, alarm: Any) -> None:
        """Set the state of an alarm, if the result differs from the last evaluation's, or a new period has begun.

        Args:
            backend: The CloudWatch that has the metric's data.
            alarm: The alarm. One that drydock cannot evaluate keeps its state.
        """
        if find_evaluation_problem(alarm):
            return
        now = utcnow()
        state = compute_state(backend, alarm, now)
        result = (state, _floor(now, int(alarm.period)))
        if self._results.get(alarm) != result:
            self._results[alarm] = result
            if alarm.state_value != state:
                alarm.update_state(_explain(alarm, state), "{}", state)


def find_rollback_reason(owner: Owner, names: Sequence[str]) -> str | None:
    """Return why an update must be rolled back: one of its alarms is in the state ALARM, or does not exist; else None.

    Args:
        owner: Account and region of the alarms.
        names: Names of the alarms that guard the update of an endpoint.
    """
    alarms = cloudwatch_backends[owner.account_id][owner.region].alarms if names else {}
    for name in names:
        if name not in alarms:
            return f"the alarm {name} does not exist any more"
        if alarms[name].state_value == ALARM:
            return f"the alarm {name} was in the state ALARM"
    return None


def compute_state(backend: CloudWatchBackend, alarm: Any, now: datetime) -> str:
    """Return the state of an alarm at a moment: OK, ALARM or INSUFFICIENT_DATA.

    Args:
        backend: The CloudWatch that has the metric's data.
        alarm: An alarm on one metric.
        now: The moment, UTC without a time zone.
    """
    period_s, count = int(alarm.period), int(alarm.evaluation_periods)
    begin = _floor(now, period_s)
    values = [_read_value(backend, alarm, begin - timedelta(seconds=period_s * n)) for n in range(count + 1)]
    breaches = [None if value is None else _is_breaching(alarm, value) for value in values]
    is_current_usable = alarm.statistic in GROWING_STATISTICS and alarm.comparison_operator.startswith("Greater")
    # The first value is that of the current period, which is not complete.
    breaches = breaches[:count] if breaches[0] and is_current_usable else breaches[1:]
    if alarm.treat_missing_data in ("breaching", "notBreaching"):
        breaches = [alarm.treat_missing_data == "breaching" if item is None else item for item in breaches]
    if sum(item is True for item in breaches) >= int(alarm.datapoints_to_alarm or count):
        return ALARM
    if all(item is None for item in breaches):
        return str(alarm.state_value) if alarm.treat_missing_data == "ignore" else NO_DATA
    return OK


def read_last_value(backend: CloudWatchBackend, alarm: Any) -> float | None:
    """Return the newest value of an alarm's metric in the current and the evaluated periods; None if there is none."""
    begin, period_s = _floor(utcnow(), int(alarm.period)), int(alarm.period)
    for number in range(int(alarm.evaluation_periods) + 1):
        value = _read_value(backend, alarm, begin - timedelta(seconds=period_s * number))
        if value is not None:
            return value
    return None


def _read_value(backend: CloudWatchBackend, alarm: Any, begin: datetime) -> float | None:
    """Return the statistic of the alarm's metric in the period that begins at a moment; None without data.

    The alarm's dimensions must equal the dimensions of the data.
    """
    end = begin + timedelta(seconds=int(alarm.period))
    statistic = _get_statistic(alarm)
    statistics = PercentileStatistics([statistic], begin)
    statistics.metric_data = [
        datum
        for datum in list_data(backend, str(alarm.namespace))
        if (datum.namespace, datum.name) == (alarm.namespace, alarm.metric_name)
        and begin <= datum.timestamp < end
        and alarm.unit in (None, datum.unit)
        and sorted(datum.dimensions) == sorted(alarm.dimensions)
    ]
    value = statistics.get_statistics_for_type(statistic) if statistics.metric_data else None
    return None if value is None else float(value)


def _get_statistic(alarm: Any) -> str:
    """Return the name of the statistic that an alarm compares; "" for an alarm on several metrics."""
    return str(alarm.statistic or alarm.extended_statistic or "")


def _is_breaching(alarm: Any, value: float) -> bool:
    return bool(COMPARISONS[alarm.comparison_operator](value, float(alarm.threshold)))


def _floor(moment: datetime, period_s: int) -> datetime:
    """Return the beginning of the period that a moment is in; periods are counted from midnight."""
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + timedelta(seconds=(moment - midnight).total_seconds() // period_s * period_s)


def _explain(alarm: Any, state: str) -> str:
    if state == NO_DATA:
        return f"Insufficient Data: no data of {alarm.metric_name} in the last {alarm.evaluation_periods} periods."
    comparison = "crossed" if state == ALARM else "did not cross"
    statistic = _get_statistic(alarm)
    return f"Threshold Crossed: {statistic} of {alarm.metric_name} {comparison} the threshold {alarm.threshold}."
