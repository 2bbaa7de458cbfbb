"""Test the metering of endpoints with a real drydock: scaled, serverless and deleted ones, kills, two at once."""

import datetime as dt
import io
import itertools
import os
import signal
import subprocess
import sys
import tarfile
import textwrap
import time

import pytest

from pipelines.costs.endpoints.ledger import EndpointLedger
from pipelines.costs.endpoints.report import group_endpoint_rows
from pipelines.costs.report import parse_keys
from pipelines.costs.spending import read_spending
from pipelines.costs.usage.columns import COLUMNS
from pipelines.serving.metering.meter import meter_endpoints
from pipelines.serving.metering.running import list_running_fleets
from tests.tools import forking

pytestmark = pytest.mark.usefixtures("ended_endpoints", "set_aws_variables", "home", "fresh_settings")

PRICE_USD_H = 0.115
INFERENCE = """
def model_fn(model_dir):
    return 1

def transform_fn(model, body, content_type, accept):
    return "1", accept
"""
HOUR = dt.timedelta(hours=1)


def create_endpoint(
    drydock, until, name, project="metered", tags=None, asynchronous=False, names=("AllTraffic",), **variant
):
    """Create an endpoint as Leeway tags it, and wait until it is in service."""
    sagemaker, key = drydock.client("sagemaker"), f"leeway/features/metered/{name}.tar.gz"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        member = tarfile.TarInfo("code/inference.py")
        member.size = len(INFERENCE)
        tar.addfile(member, io.BytesIO(INFERENCE.encode()))
    drydock.client("s3").put_object(Bucket="leeway", Key=key, Body=archive.getvalue())
    container = {"Image": "image", "ModelDataUrl": f"s3://leeway/{key}"}
    role = "arn:aws:iam::123456789012:role/x"
    sagemaker.create_model(ModelName=name, ExecutionRoleArn=role, PrimaryContainer=container)
    size = variant or {"InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    output = (
        {"AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": "s3://leeway/leeway/transform/answers"}}}
        if asynchronous
        else {}
    )
    sagemaker.create_endpoint_config(
        EndpointConfigName=name,
        ProductionVariants=[{"VariantName": variant_name, "ModelName": name, **size} for variant_name in names],
        **output,
    )
    if tags is None:
        tags = {"leeway:endpoint": name, "leeway:project": project, "leeway:model": "gauge"}
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name, Tags=pairs)
    wait_for(drydock, until, name, None)


def wait_for(drydock, until, name, count):
    """Wait until an endpoint is in service, and has a number of instances if one is given."""

    def is_ready():
        endpoint = drydock.client("sagemaker").describe_endpoint(EndpointName=name)
        counts = [variant["CurrentInstanceCount"] for variant in endpoint.get("ProductionVariants", [])]
        return endpoint["EndpointStatus"] == "InService" and count in (None, *counts)

    until(is_ready)


def read_rows(*endpoints):
    return [row for row in EndpointLedger.open().read_rows() if row["endpoint"] in endpoints]


def get_now():
    return dt.datetime.now(dt.UTC)


def sum_column(rows, name):
    return sum(row[name] for row in rows)


def check_times(rows, begin, end):
    """Check that the rows of one fleet have each moment once."""
    assert (rows[0]["begin"], rows[-1]["end"]) == (begin, end)
    for before, after in itertools.pairwise(rows):
        assert before["end"] == after["begin"]


def test_a_variant_is_scaled_to_two_and_to_zero_and_each_hour_is_charged_once(drydock, until):
    autoscaling = drydock.client("application-autoscaling")
    target = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": "endpoint/gauge-scaled/variant/AllTraffic",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    create_endpoint(drydock, until, "gauge-scaled", asynchronous=True)
    create_endpoint(drydock, until, "gauge-other", project="another")
    create_endpoint(drydock, until, "gauge-foreign", tags={"team": "somebody else"})
    created = drydock.client("sagemaker").describe_endpoint(EndpointName="gauge-scaled")["CreationTime"]
    first_now = get_now()
    meter_endpoints(first_now)
    for count in (2, 1, 0):
        autoscaling.register_scalable_target(**target, MinCapacity=count, MaxCapacity=count)
        wait_for(drydock, until, "gauge-scaled", count)

    def list_activities():
        response = autoscaling.describe_scaling_activities(
            ServiceNamespace="sagemaker", ResourceId=target["ResourceId"]
        )
        ended = [item for item in response["ScalingActivities"] if item["StatusCode"] == "Successful"]
        return ended if len(ended) == 3 else None

    zero_at, one_at, two_at = (item["EndTime"] for item in until(list_activities))
    end = get_now() + HOUR
    meter_endpoints(end)
    rows = read_rows("gauge-scaled")
    check_times(rows, created, end)
    seconds = (
        (two_at - created).total_seconds() + 2 * (one_at - two_at).total_seconds() + (zero_at - one_at).total_seconds()
    )
    assert 3_600 * sum_column(rows, "instance_h") == pytest.approx(seconds, abs=0.01)
    zero_h = (end - zero_at).total_seconds() / 3_600
    assert sum_column(rows, "zero_h") == pytest.approx(zero_h, abs=1e-5) and zero_h > 0.99
    assert sum_column(rows, "cost_usd") == pytest.approx(seconds / 3_600 * PRICE_USD_H, abs=1e-5)
    assert sum_column(rows, "saved_usd") == pytest.approx(zero_h * PRICE_USD_H, abs=1e-5)
    assert (rows[-1]["instances"], rows[-1]["running"], rows[-1]["model"]) == (0, True, "gauge")
    assert [row["scaled"] for row in (rows[0], rows[-1], read_rows("gauge-other")[-1])] == [False, True, False]
    assert meter_endpoints(end) == [], "a second metering charges nothing twice"
    assert read_rows("gauge-foreign") == [], "Leeway did not make it"

    month = f"{end:%Y-%m}"  # in the last hour of a month, the next one
    rows_of_month = [row for row in rows if f"{row['begin']:%Y-%m}" == month]
    spending = read_spending("metered", month, list_running_fleets())
    assert spending.endpoints_usd == pytest.approx(sum_column(rows_of_month, "cost_usd")), "without another project's"
    assert spending.running_usd == 0, "it has no instance"
    assert read_spending("another", month, list_running_fleets()).running_usd > 0


def test_each_variant_of_an_ab_test_is_charged_without_being_managed(drydock, until):
    """A person made the endpoint, as the page about A/B tests says: it has the tag of its model only."""
    sagemaker = drydock.client("sagemaker")
    create_endpoint(drydock, until, "gauge-ab", tags={"leeway:model": "gauge"}, names=("v3", "v4"))
    created = sagemaker.describe_endpoint(EndpointName="gauge-ab")["CreationTime"]
    meter_endpoints(get_now())
    capacities = [{"VariantName": "v4", "DesiredInstanceCount": 2, "DesiredWeight": 0.5}]
    sagemaker.update_endpoint_weights_and_capacities(EndpointName="gauge-ab", DesiredWeightsAndCapacities=capacities)
    wait_for(drydock, until, "gauge-ab", 2)
    changed = sagemaker.describe_endpoint(EndpointName="gauge-ab")["LastModifiedTime"]
    end = get_now() + HOUR
    meter_endpoints(end)
    first, second = group_endpoint_rows(read_rows("gauge-ab"), parse_keys("endpoint,variant,model"))
    names = [(group["endpoint"], group["variant"], group["model"]) for group in (first, second)]
    assert names == [("gauge-ab", "v3", "gauge"), ("gauge-ab", "v4", "gauge")]
    hours = [(end - created).total_seconds() / 3_600, (end - changed).total_seconds() / 3_600]
    assert first["instance_h"] == pytest.approx(hours[0], abs=1e-5)
    assert second["instance_h"] == pytest.approx(sum(hours), abs=1e-5), "two instances since the change"
    assert second["cost_usd"] == pytest.approx(sum(hours) * PRICE_USD_H, abs=1e-4)
    assert meter_endpoints(end) == []
    running = {item.fleet.variant: item.usd_h for item in list_running_fleets() if item.fleet.endpoint == "gauge-ab"}
    assert running == {"v3": PRICE_USD_H, "v4": 2 * PRICE_USD_H}, "a budget counts them"
    sagemaker.delete_endpoint(EndpointName="gauge-ab")
    until(lambda: not sagemaker.list_endpoints(NameContains="gauge-ab")["Endpoints"])
    meter_endpoints(end + HOUR)
    last_rows = {row["variant"]: row for row in read_rows("gauge-ab")}
    assert {variant: row["running"] for variant, row in last_rows.items()} == {"v3": False, "v4": False}
    assert sum_column(read_rows("gauge-ab"), "instance_h") == pytest.approx(hours[0] + sum(hours), abs=1e-4)


@pytest.mark.soak
def test_a_change_by_hand_counts_and_a_deletion_by_hand_ends_with_the_last_sign(drydock, until):
    sagemaker = drydock.client("sagemaker")
    create_endpoint(drydock, until, "gauge-gone")
    meter_endpoints(get_now())
    sagemaker.update_endpoint_weights_and_capacities(
        EndpointName="gauge-gone",
        DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 2}],
    )
    wait_for(drydock, until, "gauge-gone", 2)
    changed = sagemaker.describe_endpoint(EndpointName="gauge-gone")["LastModifiedTime"]
    metered = get_now()
    meter_endpoints(metered)
    (first, second) = read_rows("gauge-gone")
    seconds = (changed - second["begin"]).total_seconds() + 2 * (metered - changed).total_seconds()
    assert 3_600 * second["instance_h"] == pytest.approx(seconds, abs=0.01)
    assert (first["instances"], second["instances"]) == (1, 2)

    dimensions = [{"Name": "EndpointName", "Value": "gauge-gone"}, {"Name": "VariantName", "Value": "AllTraffic"}]
    cloudwatch = drydock.client("cloudwatch")

    def has_cpu():
        query = {"Namespace": "/aws/sagemaker/Endpoints", "MetricName": "CPUUtilization", "Dimensions": dimensions}
        return cloudwatch.get_metric_statistics(
            **query, StartTime=metered, EndTime=get_now() + HOUR, Period=60, Statistics=["SampleCount"]
        )["Datapoints"]

    until(has_cpu)
    sagemaker.delete_endpoint(EndpointName="gauge-gone")
    until(lambda: not sagemaker.list_endpoints(NameContains="gauge-gone")["Endpoints"])
    deleted = get_now()
    meter_endpoints(deleted + 2 * HOUR)
    last = read_rows("gauge-gone")[-1]
    assert not last["running"] and last["begin"] == metered
    assert last["end"] <= deleted + dt.timedelta(minutes=1), "the two hours without a sign are not charged"
    assert last["instance_h"] == pytest.approx(2 * (last["end"] - metered).total_seconds() / 3_600)
    assert "gauge-gone" not in [item.fleet.endpoint for item in list_running_fleets()]
    assert meter_endpoints(deleted + 3 * HOUR) == []


def test_a_serverless_variant_is_charged_by_its_requests_in_whole_hours(drydock, until):
    serverless = {"MemorySizeInMB": 2_048, "MaxConcurrency": 2}
    create_endpoint(drydock, until, "gauge-serverless", ServerlessConfig=serverless)
    runtime, begin = drydock.client("sagemaker-runtime"), get_now()
    for _ in range(3):
        runtime.invoke_endpoint(EndpointName="gauge-serverless", ContentType="text/csv", Body=b"1")
    floor = begin.replace(minute=0, second=0, microsecond=0)
    points = drydock.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/SageMaker",
        MetricName="ModelLatency",
        Dimensions=[
            {"Name": "EndpointName", "Value": "gauge-serverless"},
            {"Name": "VariantName", "Value": "AllTraffic"},
        ],
        StartTime=floor,
        EndTime=floor + 2 * HOUR,
        Period=7_200,
        Statistics=["Sum"],
    )["Datapoints"]
    assert meter_endpoints(floor + dt.timedelta(minutes=4)) == [], (
        "the hour is not over, or CloudWatch may lack its end"
    )
    for end in (floor + 2.1 * HOUR, floor + 2.5 * HOUR, floor + 3.1 * HOUR):
        meter_endpoints(end)
    rows = read_rows("gauge-serverless")
    assert rows[-1]["end"] == floor + 3 * HOUR and sum_column(rows, "requests") == 3
    busy_s = sum(point["Sum"] for point in points) / 1e6
    assert sum_column(rows, "busy_s") == pytest.approx(busy_s) and busy_s > 0
    assert rows[0]["price_usd_h"] == pytest.approx(0.072)
    assert sum_column(rows, "cost_usd") == pytest.approx(busy_s * 2 * 0.00002, abs=1e-6)
    assert sum_column(rows, "instance_h") == sum_column(rows, "saved_usd") == 0


def test_requests_of_instances_are_counted_once(drydock, until):
    create_endpoint(drydock, until, "gauge-busy")
    for _ in range(2):
        drydock.client("sagemaker-runtime").invoke_endpoint(
            EndpointName="gauge-busy", ContentType="text/csv", Body=b"1"
        )
    for end in (get_now(), get_now() + HOUR, get_now() + 2 * HOUR):
        meter_endpoints(end)
    assert sum_column(read_rows("gauge-busy"), "requests") == 2
    drydock.client("sagemaker").delete_endpoint(EndpointName="gauge-busy")


@pytest.mark.soak
def test_use_of_the_instances_is_that_of_the_real_process(drydock, until):
    """The CPU and memory of the model server are in the ledger; what drydock does not publish of endpoints is null."""
    create_endpoint(drydock, until, "gauge-used")
    begin = drydock.client("sagemaker").describe_endpoint(EndpointName="gauge-used")["CreationTime"]
    serverless = {"MemorySizeInMB": 2_048, "MaxConcurrency": 2}
    create_endpoint(drydock, until, "gauge-used-serverless", ServerlessConfig=serverless)
    runtime, cloudwatch = drydock.client("sagemaker-runtime"), drydock.client("cloudwatch")

    def is_measured_at_work():
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            for name in ("gauge-used", "gauge-used-serverless"):
                runtime.invoke_endpoint(EndpointName=name, ContentType="text/csv", Body=b"1")
        points = cloudwatch.get_metric_statistics(
            Namespace="/aws/sagemaker/Endpoints",
            MetricName="CPUUtilization",
            Dimensions=[
                {"Name": "EndpointName", "Value": "gauge-used"},
                {"Name": "VariantName", "Value": "AllTraffic"},
            ],
            StartTime=begin,
            EndTime=get_now() + HOUR,
            Period=60,
            Statistics=["Maximum"],
        )["Datapoints"]
        return max((point["Maximum"] for point in points), default=0) > 1

    until(is_measured_at_work)
    meter_endpoints(get_now() + 2 * HOUR)
    rows = read_rows("gauge-used")
    (row,) = [row for row in rows if row["observed_h"]]
    assert 0 < row["cpu_mean"] <= row["cpu_peak"] and row["cpu_peak"] > 1, "percent of a core"
    assert 0 < row["memory_mean"] <= row["memory_peak"] < 10, "a small process in 8 GiB"
    assert 5 / 60 <= row["observed_h"] < 0.5 and row["scaled"] is False
    assert {row[name] for name in COLUMNS if not name.startswith(("cpu", "memory"))} == {None}
    assert {row["cpu_mean"] for row in rows if not row["observed_h"]} <= {None}
    serverless_rows = read_rows("gauge-used-serverless")
    assert serverless_rows and {row[name] for row in serverless_rows for name in (*COLUMNS, "observed_h")} == {None}


KILLED = textwrap.dedent("""
    import datetime as dt, os, signal, sys
    from pipelines.lake import month_table
    from pipelines.serving.metering.meter import meter_endpoints

    replace_month, commits = month_table.TableVersion.replace_month, int(sys.argv[2])

    def replace_or_die(version, month, rows):
        global commits
        if commits == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        commits -= 1
        replace_month(version, month, rows)

    month_table.TableVersion.replace_month = replace_or_die
    meter_endpoints(dt.datetime.fromisoformat(sys.argv[1]))
""")


def test_a_metering_that_is_killed_between_two_months_is_completed_by_the_next(drydock, until):
    create_endpoint(drydock, until, "gauge-killed")
    created = drydock.client("sagemaker").describe_endpoint(EndpointName="gauge-killed")["CreationTime"]
    end = (created.replace(day=1) + dt.timedelta(days=33)).replace(microsecond=0)  # in the next month
    for commits in (0, 1):
        process = forking.run([sys.executable, "-c", KILLED, end.isoformat(), str(commits)], env=os.environ)
        assert process.returncode == -signal.SIGKILL
    months = {row["date"] for row in read_rows("gauge-killed")}
    assert months == {created.date().replace(day=1)}, "the first month is there"
    meter_endpoints(end)
    rows = read_rows("gauge-killed")
    assert len({row["date"] for row in rows}) == 2
    check_times(rows, created, end)
    assert all(row["begin"].date() == (row["end"] - dt.timedelta(microseconds=1)).date() for row in rows), "a day a row"
    assert sum_column(rows, "instance_h") == pytest.approx((end - created).total_seconds() / 3_600)


@pytest.mark.soak
def test_two_meterings_at_once_charge_each_hour_once(drydock, until):
    create_endpoint(drydock, until, "gauge-twice")
    created = drydock.client("sagemaker").describe_endpoint(EndpointName="gauge-twice")["CreationTime"]
    command = [sys.executable, "-m", "pipelines", "meter_endpoints"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        _, err = process.communicate()
        assert process.returncode == 0, err
    rows = read_rows("gauge-twice")
    check_times(rows, created, rows[-1]["end"])
    assert sum_column(rows, "instance_h") == pytest.approx((rows[-1]["end"] - created).total_seconds() / 3_600)


def test_an_endpoint_without_a_price_is_named_and_loses_no_hour(drydock, until, tmp_path, monkeypatch):
    from pipelines.errors import DataError

    create_endpoint(drydock, until, "gauge-priced")
    create_endpoint(drydock, until, "gauge-unpriced", InstanceType="ml.m7i.large", InitialInstanceCount=1)
    created = drydock.client("sagemaker").describe_endpoint(EndpointName="gauge-unpriced")["CreationTime"]
    with pytest.raises(DataError, match=r"gauge-unpriced: no price is known for ml\.m7i\.large in us-east-1"):
        meter_endpoints(get_now())
    assert read_rows("gauge-priced") and not read_rows("gauge-unpriced")
    prices = tmp_path / "prices.json"
    group = '{"regions": ["us-east-1"], "usd_per_hour": {}, "hosting_usd_per_hour": {"ml.m7i.large": 1.0}}'
    prices.write_text(f'{{"as_of": "2026-11-01", "prices": [{group}]}}')
    monkeypatch.setenv("LEEWAY_PRICES", str(prices))
    end = get_now()
    meter_endpoints(end)
    rows = read_rows("gauge-unpriced")
    check_times(rows, created, end)
    assert (rows[0]["price_usd_h"], rows[0]["price_source"]) == (1.0, "prices.json")
