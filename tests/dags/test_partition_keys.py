"""Test that a timetable's partition keys, and the templates of a run by hand, are keys of the steps."""

from typing import Any

import jinja2
import pendulum
import pytest
from airflow.timetables.base import TimeRestriction
from airflow.timetables.trigger import CronPartitionTimetable
from leeway.operators.ingest import HOUR, MONTH, PARTITION

from pipelines.partitions import get_end, parse_partition

CASES = [
    ("0 * * * *", "%Y-%m-%dT%H", HOUR, "2013-03-10T07"),
    ("0 0 * * *", "%Y-%m-%d", PARTITION, "2013-03-10"),
    ("0 0 1 * *", "%Y-%m", MONTH, "2013-03"),
]
"""The cron, the form of its keys, the template, and the key of the moment 2013-03-10T07:30."""


@pytest.mark.parametrize(("cron", "key_format", "template", "by_hand"), CASES)
def test_a_run_has_the_key_of_the_partition_that_just_ended(
    cron: str, key_format: str, template: str, by_hand: str
) -> None:
    timetable = CronPartitionTimetable(cron, timezone="UTC", run_offset=-1, key_format=key_format)
    earliest: Any = pendulum.datetime(2013, 2, 27, 22)
    info, keys = None, []
    for _ in range(5):
        info = timetable.next_dagrun_info_v2(
            last_dagrun_info=info, restriction=TimeRestriction(earliest=earliest, latest=None, catchup=True)
        )
        assert info
        assert info.partition_key
        key = jinja2.Template(template).render(partition_key=info.partition_key)
        assert key == info.partition_key
        assert get_end(parse_partition(key)) == info.run_after, "before its end, not all rows of a partition are known"
        keys.append(key)
    assert keys == sorted(set(keys))
    moment = {"ds": "2013-03-10", "ts": "2013-03-10T07:30:00+00:00"}
    assert jinja2.Template(template).render(partition_key=None, **moment) == by_hand
    assert jinja2.Template(template).render(partition_key=None) == "", "steps refuse an empty key"
