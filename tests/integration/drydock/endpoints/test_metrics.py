"""Test the CloudWatch metrics of endpoints: percentiles of latency, and what the instances use."""

import math
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError


def test_percentiles_of_latency_are_answered_and_evaluated_by_alarms(endpoints: Any, drydock: Any) -> None:
    endpoints.create_endpoint("latency")
    for text in (*["hello"] * 9, "wait 0.3"):
        endpoints.invoke("latency", text)
    fast, slow = (endpoints.read_statistic("ModelLatency", name, "latency") for name in ("p50", "p99"))
    assert fast < 0.29e6 < slow  # a percentile is within 1 % of the exact value
    assert slow == pytest.approx(endpoints.read_statistic("ModelLatency", "Maximum", "latency"), rel=0.02)
    metric = {"Namespace": "AWS/SageMaker", "MetricName": "ModelLatency"}
    metric["Dimensions"] = [{"Name": "EndpointName", "Value": "latency"}, {"Name": "VariantName", "Value": "main"}]
    now = datetime.now(UTC)
    query = {"Id": "p", "MetricStat": {"Metric": metric, "Period": 3600, "Stat": "p99"}}
    cloudwatch = drydock.client("cloudwatch")
    (result,) = cloudwatch.get_metric_data(
        MetricDataQueries=[query], StartTime=now - timedelta(minutes=59), EndTime=now + timedelta(minutes=1)
    )["MetricDataResults"]
    assert result["Values"] == [slow]
    for name, threshold in (("slow", 0.2e6), ("fast", 1e9)):
        cloudwatch.put_metric_alarm(
            AlarmName=name,
            **metric,
            ExtendedStatistic="p99",
            Period=10,  # so that the test need not wait for the end of a minute
            EvaluationPeriods=120,
            DatapointsToAlarm=1,
            Threshold=threshold,
            ComparisonOperator="GreaterThanThreshold",
        )

    def read_states() -> dict[str, str]:
        alarms = cloudwatch.describe_alarms(AlarmNames=["slow", "fast"])["MetricAlarms"]
        return {alarm["AlarmName"]: alarm["StateValue"] for alarm in alarms}

    drydock.wait_until("the states", lambda: read_states() == {"slow": "ALARM", "fast": "OK"})


@pytest.mark.soak
def test_invocations_are_known_after_a_restart(tmp_path: Path, run_drydock: Any, make_client: Any) -> None:
    with run_drydock(tmp_path) as server:
        client = make_client(server)
        client.create_endpoint("kept")
        client.invoke_often("kept", 3)
        modified = client.describe("kept")["LastModifiedTime"]
        server.process.terminate()
        assert server.process.wait(60) == 0
        (tmp_path / "port").unlink()
    with run_drydock(tmp_path) as server:
        client = make_client(server)
        assert client.read_statistic("Invocations", "Sum", "kept") == 3
        assert client.describe("kept")["LastModifiedTime"] == modified, "a restart is no change of the endpoint"
        client.invoke_often("kept", 1)
        assert client.read_statistic("Invocations", "Sum", "kept") == 4


def test_requests_that_cloudwatch_or_drydock_cannot_evaluate_are_refused_in_one_line(drydock: Any) -> None:
    cloudwatch, now = drydock.client("cloudwatch"), datetime.now(UTC)
    times = {"StartTime": now - timedelta(hours=1), "EndTime": now}
    alarm = {"AlarmName": "odd", "MetricName": "m", "Namespace": "mine", "Statistic": "Sum", "Period": 60}
    alarm |= {"EvaluationPeriods": 1, "Threshold": 1.0, "ComparisonOperator": "GreaterThanThreshold"}
    expression = [{"Id": "e", "Expression": "m * 100"}]
    for call, text in (
        (lambda: cloudwatch.put_metric_alarm(**alarm | {"Period": 7}), "Period must be 10, 20, 30 or a multiple of 60"),
        (lambda: cloudwatch.put_metric_alarm(**alarm | {"Threshold": float("nan")}), "for parameter Threshold"),
        (lambda: cloudwatch.put_metric_alarm(**alarm | {"ComparisonOperator": "Foo"}), "comparisonOperator"),
        (lambda: cloudwatch.put_metric_alarm(**alarm | {"DatapointsToAlarm": 2}), "DatapointsToAlarm must be less"),
        (
            lambda: cloudwatch.put_metric_alarm(
                AlarmName="odd", Metrics=expression, **{name: alarm[name] for name in list(alarm)[5:]}
            ),
            "drydock does not evaluate alarms on expressions",
        ),
        (lambda: cloudwatch.get_metric_data(MetricDataQueries=expression, **times), "drydock does not compute"),
        (lambda: cloudwatch.put_metric_data(Namespace="mine", MetricData=[{"MetricName": "m"}]), "must be specified"),
        (
            lambda: cloudwatch.put_metric_data(
                Namespace="AWS/SageMaker", MetricData=[{"MetricName": "Invocations", "Value": 1.0}]
            ),
            r"\(InvalidParameterValue\) .* The value AWS/ for parameter Namespace is invalid\.",
        ),
        (
            lambda: cloudwatch.put_metric_data(
                Namespace="mine", MetricData=[{"MetricName": "m", "Value": 1.0, "Timestamp": 0}]
            ),
            r"MetricData\.member\.1\.Timestamp must specify a time within the past two weeks",
        ),
    ):
        with pytest.raises(ClientError, match=text) as error:
            call()
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
        assert "\n" not in str(error.value)
    assert cloudwatch.describe_alarms(AlarmNames=["odd"])["MetricAlarms"] == []


@pytest.mark.parametrize("has_disk", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_cpu_memory_and_disk_of_the_instances_are_metrics(endpoints: Any, drydock: Any, has_disk: bool) -> None:
    """The disk is measured only every 15 s."""
    name = "usage-and-disk" if has_disk else "usage"
    endpoints.create_model(name)
    variants = [endpoints.build_variant(name, VolumeSizeInGB=1)]
    endpoints.sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=variants)
    endpoints.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    endpoints.wait_for_status(name, "InService")
    metrics = ["CPUUtilization", "MemoryUtilization", *(["DiskUtilization"] if has_disk else [])]
    namespace = "/aws/sagemaker/Endpoints"

    def read(metric: str) -> float:
        return float(endpoints.read_statistic(metric, "Maximum", name, namespace))

    def burn() -> bool:
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            endpoints.invoke(name)
        return all(read(metric) > 0 for metric in metrics)

    drydock.wait_until("the metrics", burn)
    assert 0 < read("CPUUtilization") <= 220
    assert 0 < read("MemoryUtilization") < 10, "a small Python process in 8 GiB"
    assert not has_disk or 0 < read("DiskUtilization") < 1, "a small model in 1 GiB"
    assert math.isnan(read("GPUUtilization")) or shutil.which("nvidia-smi")
    assert endpoints.read_statistic("InvocationsPerInstance", "Sum", name) == endpoints.read_statistic(
        "Invocations", "Sum", name
    )
