"""Test EC2's history of spot prices: set by a command, listed by boto3, kept over a kill."""

import datetime as dt
import os
import signal
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.tools import forking

BEGIN = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def list_prices(drydock: Any, instance_type: str, **fields: Any) -> list[tuple[str, float, dt.datetime]]:
    """Return zone, price and time of each entry of the history, on all its pages, newest first."""
    times = {"StartTime": BEGIN, "EndTime": BEGIN + 10 * HOUR}
    pages = drydock.client("ec2").get_paginator("describe_spot_price_history")
    entries = [
        item
        for page in pages.paginate(InstanceTypes=[instance_type], **{**times, **fields})
        for item in page["SpotPriceHistory"]
    ]
    return [(item["AvailabilityZone"], float(item["SpotPrice"]), item["Timestamp"]) for item in entries]


def set_prices(drydock: Any, instance_type: str, prices: list[tuple[dt.datetime, float]], **fields: Any) -> None:
    texts = [(at.isoformat(), usd_h) for at, usd_h in prices]
    drydock.send_command(
        "spot-prices", **{"instance_type": instance_type, "region": "us-east-1", "prices": texts, **fields}
    )


def test_history_has_the_prices_of_the_time_and_the_last_one_before(drydock: Any) -> None:
    changes = [(BEGIN - 5 * HOUR, 0.5), (BEGIN - HOUR, 0.4), (BEGIN + HOUR, 0.3), (BEGIN + 11 * HOUR, 0.2)]
    set_prices(drydock, "c5.large", changes)
    set_prices(drydock, "c5.large", [(BEGIN + 2 * HOUR, 0.9)], zone="us-east-1b")
    history = [("us-east-1b", 0.9, BEGIN + 2 * HOUR), ("us-east-1a", 0.3, BEGIN + HOUR)]
    history.append(("us-east-1a", 0.4, BEGIN - HOUR))
    assert list_prices(drydock, "c5.large") == history
    assert list_prices(drydock, "c5.large", AvailabilityZone="us-east-1b") == history[:1]
    assert (
        list_prices(drydock, "c5.large", Filters=[{"Name": "availability-zone", "Values": ["us-east-1a"]}])
        == (history[1:])
    )
    assert list_prices(drydock, "c5.large", ProductDescriptions=["Windows"]) == []
    assert list_prices(drydock, "c5.large", ProductDescriptions=["Linux/UNIX"], PaginationConfig={"PageSize": 1}) == (
        history
    )
    set_prices(drydock, "c5.large", [(BEGIN + HOUR, 0.35)])
    assert list_prices(drydock, "c5.large")[1] == ("us-east-1a", 0.35, BEGIN + HOUR), "the same moment: replaced"


def test_a_type_or_region_without_prices_has_no_history(drydock: Any) -> None:
    assert list_prices(drydock, "x1e.32xlarge") == []
    set_prices(drydock, "c5.xlarge", [(BEGIN, 0.1)])
    history = drydock.client("ec2", "eu-west-1").describe_spot_price_history(InstanceTypes=["c5.xlarge"])
    assert history["SpotPriceHistory"] == []
    with pytest.raises(ClientError, match=r"InvalidParameterValue.*The filter 'colour' is invalid"):
        list_prices(drydock, "c5.xlarge", Filters=[{"Name": "colour", "Values": ["red"]}])


def test_wrong_prices_are_refused_and_none_is_stored(drydock: Any) -> None:
    prices = [[BEGIN.isoformat(), 0.1], [(BEGIN + HOUR).isoformat(), -1.0]]
    error_response = drydock.send_refused_command(
        "spot-prices", instance_type="c5.2xlarge", region="us-east-1", prices=prices
    )
    assert error_response == (400, "a price must be a number of US dollars from 0.000001 to 1e+06, not -1.0")
    assert list_prices(drydock, "c5.2xlarge") == []


FILTERS = [
    ({"InstanceTypes": ["r5.large", "r5.large"]}, 2),
    ({"InstanceTypes": ["r5.large"], "Filters": [{"Name": "instance-type", "Values": ["c5.large"]}]}, 0),
    ({"AvailabilityZone": "us-east-1a", "Filters": [{"Name": "availability-zone", "Values": ["us-east-1b"]}]}, 0),
    ({"Filters": [{"Name": "instance-type", "Values": ["r5.*", "r5.?large"]}]}, 3),
    ({"Filters": [{"Name": "instance-type", "Values": ["r5.?large"]}]}, 1),
    ({"Filters": [{"Name": "instance-type", "Values": ["r5*"]}, {"Name": "spot-price", "Values": ["0.2*"]}]}, 1),
    ({"Filters": [{"Name": "instance-type", "Values": ["r5*"]}, {"Name": "timestamp", "Values": ["2026-03-02T01*"]}]},
     1),
    ({"InstanceTypes": ["r5.large"], "StartTime": BEGIN + 9 * HOUR, "EndTime": BEGIN}, 0),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "count"), FILTERS)
def test_parameters_and_filters_select_together(drydock: Any, fields: dict[str, Any], count: int) -> None:
    set_prices(drydock, "r5.large", [(BEGIN, 0.1), (BEGIN + HOUR, 0.2)])
    set_prices(drydock, "r5.xlarge", [(BEGIN, 0.3)])
    request = {"StartTime": BEGIN, "EndTime": BEGIN + 10 * HOUR, **fields}
    history = drydock.client("ec2").describe_spot_price_history(**request)["SpotPriceHistory"]
    assert len(history) == count


WRONG_VALUES = [
    ({"MaxResults": "0"}, "InvalidParameterValue"),
    ({"MaxResults": "-1"}, "InvalidParameterValue"),
    ({"MaxResults": "many"}, "InvalidParameterValue"),
    ({"NextToken": "LTM="}, "InvalidNextToken"),  # -3
    ({"NextToken": "IDJfMCA="}, "InvalidNextToken"),  # " 2_0 "
    ({"NextToken": "none"}, "InvalidNextToken"),
    ({"NextToken": "\u00fc"}, "InvalidNextToken"),
    ({"StartTime": "yesterday"}, "InvalidParameterValue"),
    ({"EndTime": "99999-01-01"}, "InvalidParameterValue"),
    ({"StartTime": "0001-01-01T00:00:00+23:59"}, "InvalidParameterValue"),
    ({"StartTime": "1e400"}, "InvalidParameterValue"),
    ({"DryRun": "true"}, "DryRunOperation"),
    ({"Filter.1.Name": "colour", "Filter.1.Value.1": "red"}, "InvalidParameterValue"),
]


@pytest.mark.parametrize(("fields", "code"), WRONG_VALUES)
def test_wrong_values_are_refused_as_by_ec2(drydock: Any, fields: dict[str, str], code: str) -> None:
    """The requests are sent as no client would: boto3 checks times and numbers itself."""
    scope = "Credential=x/20250101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0"
    values = {"Action": "DescribeSpotPriceHistory", "Version": "2016-11-15", **fields}
    headers = {"Authorization": f"AWS4-HMAC-SHA256 {scope}"}
    request = urllib.request.Request(drydock.url, urllib.parse.urlencode(values).encode(), headers)
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(request)
    assert 400 <= raised.value.code < 500
    assert f"<Code>{code}</Code>" in raised.value.read().decode()


def test_command_sets_the_prices_of_a_file(drydock: Any, tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("2026-03-02T01:00:00+00:00,0.25\n\n2026-03-02T02:00:00,0.5\n")
    command = [sys.executable, "-m", "drydock", "spot-prices", str(file), "--instance-type", "c5.4xlarge"]
    forking.run([*command, "--url", drydock.url], check=True, capture_output=True)
    assert [price for _, price, _ in list_prices(drydock, "c5.4xlarge")] == [0.5, 0.25]
    file.write_text("time,price\n")
    result = forking.run([*command, "--url", drydock.url], check=False, capture_output=True, text=True)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "Each line must have a time and a price" in result.stderr


def test_prices_survive_a_kill(run_drydock: Any, tmp_path: Path) -> None:
    with run_drydock(tmp_path) as server:
        set_prices(server, "c5.large", [(BEGIN, 0.1)])
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    (tmp_path / "port").unlink()
    with run_drydock(tmp_path) as server:
        assert list_prices(server, "c5.large") == [("us-east-1a", 0.1, BEGIN)]
