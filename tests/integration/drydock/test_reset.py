"""Test that moto's /moto-api/reset deletes everything, also what no request has used since the server's start."""

import os
import signal
import urllib.request
from pathlib import Path
from typing import Any

from drydock.notebooks.item import APP, NOTEBOOK

PRICES = {"instance_type": "c5.large", "region": "us-east-1", "prices": [["2026-03-02T00:00:00+00:00", 0.1]]}
ROLE = "arn:aws:iam::123456789012:role/role-of-tests"
ALARM = {"AlarmName": "a", "MetricName": "m", "Namespace": "n", "Statistic": "Sum", "Period": 60,
         "EvaluationPeriods": 1, "Threshold": 1, "ComparisonOperator": "GreaterThanThreshold"}  # fmt: skip


def reset(server: Any) -> None:
    urllib.request.urlopen(urllib.request.Request(f"{server.url}/moto-api/reset", method="POST")).close()


def create_resources(server: Any) -> None:
    sagemaker = server.client("sagemaker")
    server.send_command("spot-prices", **PRICES)
    sagemaker.create_notebook_instance(NotebookInstanceName="n", InstanceType="ml.t3.medium", RoleArn=ROLE)
    sagemaker.create_app(DomainId="d-1", UserProfileName="ana", AppType="JupyterLab", AppName="lab")
    sagemaker.create_model(ModelName="m", ExecutionRoleArn=ROLE, PrimaryContainer={"Image": "i"})
    server.client("logs").create_log_group(logGroupName="g")
    server.client("cloudwatch").put_metric_alarm(**ALARM)
    server.client("s3").create_bucket(Bucket="bucket-of-reset")


def count_resources(server: Any) -> dict[str, int]:
    sagemaker, cloudwatch = server.client("sagemaker"), server.client("cloudwatch")
    lists = {
        "spot prices": server.client("ec2").describe_spot_price_history()["SpotPriceHistory"],
        NOTEBOOK: sagemaker.list_notebook_instances()["NotebookInstances"],
        APP: sagemaker.list_apps()["Apps"],
        "models": sagemaker.list_models()["Models"],
        "log groups": server.client("logs").describe_log_groups()["logGroups"],
        "alarms": cloudwatch.describe_alarms()["MetricAlarms"],
        "metrics": cloudwatch.list_metrics()["Metrics"],  # the CPU of the notebook instance
        "buckets": server.client("s3").list_buckets()["Buckets"],
    }
    return {name: len(items) for name, items in lists.items()}


def test_reset_deletes_what_no_request_has_used_since_the_start(run_drydock: Any, tmp_path: Path) -> None:
    with run_drydock(tmp_path) as server:
        create_resources(server)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    (tmp_path / "port").unlink()
    with run_drydock(tmp_path) as server:
        reset(server)
        counts = count_resources(server)
        assert set(counts.values()) == {0}, counts
        # Negative control: the same lists see what is created afterwards.
        create_resources(server)
        counts = count_resources(server)
        assert 0 not in counts.values(), counts
        reset(server)
        server.send_command("spot-prices", **PRICES)
        reset(server)
        counts = count_resources(server)
        assert set(counts.values()) == {0}, counts
