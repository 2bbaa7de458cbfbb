"""Test CheapHoursSensor with a real drydock: it waits, starts when prices fall, and never past its latest start."""

import asyncio
import datetime as dt
import json
import logging
import re
import urllib.request
from dataclasses import replace

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from leeway.hooks.spot.wait import StartWait, check_start, wait_for_start
from leeway.operators.cheap_hours import CheapHoursSensor
from leeway.triggers.cheap_hours import CheapHoursTrigger

HOUR = dt.timedelta(hours=1)
DURATION_RULE = "duration_s must be more than 0 and at most 28 days"
LOG = logging.getLogger("cheap hours")


def find_hour():
    """Return the begin of the present hour."""
    return dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0)


def set_prices(drydock, instance_type, prices, region="us-east-1"):
    texts = [(at.isoformat(), usd_h) for at, usd_h in prices]
    body = {"instance_type": instance_type, "region": region, "prices": texts}
    request = urllib.request.Request(f"{drydock.url}/drydock/spot-prices", data=json.dumps(body).encode())
    urllib.request.urlopen(request).close()


@pytest.fixture
def instance_type(request):
    """Return the name of an instance type that only this test has."""
    return f"ml.{re.sub('[^a-z0-9]', '', request.node.name)}.large"


@pytest.fixture
def expensive_now(drydock, instance_type):
    """Set prices of 60 days that are twice as high in this hour of each day, and in the next two."""
    first = find_hour() - 60 * 24 * HOUR
    prices = [(first + index * HOUR, 0.2 if index % 24 < 3 else 0.1) for index in range(60 * 24 + 1)]
    set_prices(drydock, instance_type.removeprefix("ml."), prices)


@pytest.fixture
def make_sensor(request, drydock, instance_type):
    """Return the function that makes a new sensor of the same task."""

    def make(**fields):
        if "latest_start" not in fields:
            fields = {"deadline": (dt.datetime.now(dt.UTC) + 12 * HOUR).isoformat(), **fields}
        with DAG(re.sub(r"\W", "-", request.node.name)):
            return CheapHoursSensor(task_id="hold", **{"instance_type": instance_type, **fields})

    return make


def defer(sensor, context):
    """Run a sensor until it defers, and return its trigger, built as the triggerer builds it."""
    with pytest.raises(TaskDeferred) as deferral:
        sensor.execute(context)
    path, fields = deferral.value.trigger.serialize()
    assert path == "leeway.triggers.cheap_hours.CheapHoursTrigger"
    return CheapHoursTrigger(**json.loads(json.dumps(fields)))


async def read_event(trigger):
    async for event in trigger.run():
        return event.payload


@pytest.mark.usefixtures("expensive_now")
def test_it_waits_while_the_price_is_high_and_starts_when_it_falls(
    drydock, make_sensor, context, instance_type, caplog
):
    caplog.set_level(logging.INFO)
    trigger = defer(make_sensor(duration_s="3600"), context)
    event = asyncio.run(check_start(trigger.wait, LOG))
    assert (event["cause"], event["usd_h"]) == ("wait", 0.2)
    assert re.search(
        r"price now 0\.2000 USD/h, 1\.0\d times .* expected to cost 0\.2\d* USD/h, and 0\.1\d* in 3 h", caplog.text
    )
    assert f"latest start {trigger.wait.run.latest_start:%Y-%m-%d %H:%M} UTC" in caplog.text

    async def wait_and_fall():
        trigger.wait = replace(trigger.wait, check_interval_s=0.2)
        task = asyncio.create_task(read_event(trigger))
        await asyncio.sleep(1)
        assert not task.done()
        set_prices(drydock, instance_type.removeprefix("ml."), [(dt.datetime.now(dt.UTC), 0.05)])
        return await task

    event = asyncio.run(wait_and_fall())
    assert (event["cause"], event["usd_h"]) == ("start", 0.05)
    assert make_sensor().execute_complete(context, event=event)["reason"].endswith("starting")


@pytest.mark.usefixtures("expensive_now")
def test_a_restarted_triggerer_decides_the_same(make_sensor, context):
    wait = defer(make_sensor(), context).wait
    first, second = (asyncio.run(check_start(StartWait(**vars(wait)), LOG)) for _ in range(2))
    assert first["cause"] == "wait" and first == second


@pytest.mark.usefixtures("expensive_now")
def test_it_starts_at_the_latest_start_although_the_price_is_high(make_sensor, context):
    latest_start = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=2)
    trigger = defer(make_sensor(latest_start=latest_start.isoformat()), context)
    trigger.wait = replace(trigger.wait, check_interval_s=900)
    event = asyncio.run(read_event(trigger))
    assert event["cause"] == "start"
    assert dt.datetime.now(dt.UTC) - latest_start < dt.timedelta(minutes=5), "not a check interval later"


def test_it_starts_at_the_latest_start_although_ec2_does_not_answer(drydock, make_sensor, context, monkeypatch):
    latest_start = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=2)
    wait = make_sensor(latest_start=latest_start.isoformat()).build_wait()

    async def fail(self, now):
        raise ConnectionError("no route")

    monkeypatch.setattr(StartWait, "read_prices", fail)
    assert asyncio.run(wait_for_start(wait, LOG))["reason"].startswith("the latest start")


def test_an_error_of_the_decision_is_no_outage(drydock, make_sensor, context, monkeypatch):
    """The test before is the control: there, EC2 does not answer."""
    latest_start = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=30)
    wait = make_sensor(latest_start=latest_start.isoformat()).build_wait()

    async def read_damaged_prices(self, now):
        return ["no price"]

    monkeypatch.setattr(StartWait, "read_prices", read_damaged_prices)
    with pytest.raises(AttributeError):
        asyncio.run(wait_for_start(wait, LOG))


def test_a_sensor_that_is_not_deferrable_waits_in_the_worker(drydock, make_sensor, context, instance_type):
    set_prices(drydock, instance_type.removeprefix("ml."), [(find_hour() - 500 * HOUR, 0.1)])
    result = make_sensor(deferrable=False).execute(context)
    assert (result["cause"], result["usd_h"]) == ("start", 0.1)
    assert "no later run is expected to cost at least 1% less" in result["reason"]


@pytest.mark.parametrize("fields", [{}, {"region_name": "eu-north-1"}])
def test_a_type_or_region_without_history_is_refused(drydock, make_sensor, context, instance_type, fields):
    if fields:
        set_prices(drydock, instance_type.removeprefix("ml."), [(find_hour() - 500 * HOUR, 0.1)])
    with pytest.raises(AirflowFailException) as error:
        make_sensor(deferrable=False, **fields).execute(context)
    name = instance_type.removeprefix("ml.")
    assert str(error.value) == (
        f"no spot price of {instance_type}: EC2 lists no spot price of {name} (Linux/UNIX) in the last 90 days. "
        "Check instance_type and the region, or start without this sensor."
    )


def test_a_missing_permission_is_one_line(drydock, make_sensor, context):
    body = {"service": "ec2", "status": 403, "code": "UnauthorizedOperation", "for_s": 5, "times": 1}
    request = urllib.request.Request(f"{drydock.url}/drydock/outage", data=json.dumps(body).encode())
    urllib.request.urlopen(request).close()
    with pytest.raises(AirflowFailException, match=r"UnauthorizedOperation.*ec2:DescribeSpotPriceHistory") as error:
        make_sensor(deferrable=False).execute(context)
    assert "\n" not in str(error.value)


def test_a_latest_start_in_the_past_is_refused_but_a_later_try_starts(make_sensor, context):
    past = (dt.datetime.now(dt.UTC) - HOUR).isoformat()
    with pytest.raises(
        AirflowFailException, match=r"the latest start of hold, .* UTC, passed 60 min ago\. Give a later"
    ):
        make_sensor(latest_start=past).execute(context)
    with pytest.raises(
        AirflowFailException, match=r"passed 60 min ago\. Give a later deadline, or a shorter duration_s"
    ):
        make_sensor(deadline=dt.datetime.now(dt.UTC).isoformat(), duration_s=3600).execute(context)
    context["ti"].try_number = 2
    assert make_sensor(latest_start=past, deferrable=False).execute(context)["cause"] == "start"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"instance_type": "m5.large"}, "not an instance type of SageMaker: 'm5.large'; an example is ml.m5.large."),
        ({"quantile": "-0.1"}, "quantile must be above 0 and below 1, not -0.1. 0.5 expects the usual price."),
        ({"quantile": "half"}, "quantile must be a number: it is 'half'."),
        ({"duration_s": "-5"}, f"{DURATION_RULE}, not -5. Give the expected seconds of the training."),
        ({"duration_s": "1e300"}, "duration_s must be at most 28 days, not 1e+300."),
        ({"deadline": "tomorrow"}, "deadline must have the form 2026-01-31T12:00:00+00:00, not 'tomorrow'."),
        ({"deadline": ""}, "give hold either deadline or latest_start, not both or none."),
        ({"criterion": "luck"}, "criterion must be price or risk, not 'luck'."),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_in_one_line(make_sensor, context, fields, message):
    with pytest.raises(AirflowFailException) as error:
        make_sensor(**fields).execute(context)
    assert str(error.value) == message
