"""Test SageMaker Feature Store as unmodified boto3 sees it: feature groups, records, event times, TTL, and a kill."""

import time
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

DEFINITIONS = [
    {"FeatureName": "airport", "FeatureType": "String"},
    {"FeatureName": "at", "FeatureType": "String"},
    {"FeatureName": "flights", "FeatureType": "Integral"},
    {"FeatureName": "wind", "FeatureType": "Fractional"},
]
RUNTIME = "sagemaker-featurestore-runtime"


def create_group(server: Any, name: str, **fields: Any) -> str:
    """Create a feature group, and return its ARN."""
    request = {
        "FeatureGroupName": name,
        "RecordIdentifierFeatureName": "airport",
        "EventTimeFeatureName": "at",
        "FeatureDefinitions": DEFINITIONS,
        "OnlineStoreConfig": {"EnableOnlineStore": True},
    }
    return str(server.client("sagemaker").create_feature_group(**{**request, **fields})["FeatureGroupArn"])


def build_record(airport: str, at: str, **values: Any) -> list[dict[str, str]]:
    """Return the member Record of a request."""
    pairs = {"airport": airport, "at": at, **values}
    return [{"FeatureName": name, "ValueAsString": str(value)} for name, value in pairs.items()]


def put(server: Any, group: str, airport: str, at: str, **values: Any) -> None:
    """Put a record."""
    server.client(RUNTIME).put_record(FeatureGroupName=group, Record=build_record(airport, at, **values))


def get(server: Any, group: str, airport: str, **fields: Any) -> dict[str, str] | None:
    """Return the values of a record; None if there is none."""
    response = server.client(RUNTIME).get_record(
        FeatureGroupName=group, RecordIdentifierValueAsString=airport, **fields
    )
    return _read_values(response["Record"]) if "Record" in response else None


def _read_values(record: list[dict[str, str]]) -> dict[str, str]:
    return {feature["FeatureName"]: feature["ValueAsString"] for feature in record}


def test_groups_are_created_listed_described_and_deleted(drydock: Any) -> None:
    sagemaker = drydock.client("sagemaker")
    arn = create_group(drydock, "Listed", Description="by airport", Tags=[{"Key": "team", "Value": "flights"}])
    assert arn == "arn:aws:sagemaker:us-east-1:123456789012:feature-group/listed"
    group = sagemaker.describe_feature_group(FeatureGroupName="Listed")
    assert group == sagemaker.describe_feature_group(FeatureGroupName=arn) | {
        "ResponseMetadata": group["ResponseMetadata"]
    }
    assert (group["FeatureGroupStatus"], group["FeatureDefinitions"]) == ("Created", DEFINITIONS)
    assert (group["OnlineStoreConfig"], group["Description"]) == ({"EnableOnlineStore": True}, "by airport")
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "stage", "Value": "test"}])
    assert len(sagemaker.list_tags(ResourceArn=arn)["Tags"]) == 2

    create_group(drydock, "listed-too")
    query = {"NameContains": "isted", "MaxResults": 1, "SortBy": "Name", "SortOrder": "Ascending"}
    pages = [sagemaker.list_feature_groups(**query)]
    pages.append(sagemaker.list_feature_groups(**query, NextToken=pages[0]["NextToken"]))
    assert [page["FeatureGroupSummaries"][0]["FeatureGroupName"] for page in pages] == ["Listed", "listed-too"]
    assert "NextToken" not in pages[1]
    assert sagemaker.list_feature_groups(FeatureGroupStatusEquals="Creating")["FeatureGroupSummaries"] == []

    # A new group of the same name does not have the records of the deleted one.
    put(drydock, "Listed", "JFK", "2013-01-01T00:00:00Z", flights=1)
    sagemaker.delete_feature_group(FeatureGroupName="Listed")
    with pytest.raises(sagemaker.exceptions.ResourceNotFound, match="can't find a FeatureGroup with name Listed"):
        sagemaker.describe_feature_group(FeatureGroupName="Listed")
    create_group(drydock, "Listed")
    assert get(drydock, "Listed", "JFK") is None


def test_the_newest_event_time_wins(drydock: Any) -> None:
    create_group(drydock, "newest")
    put(drydock, "newest", "JFK", "2013-01-02T00:00:00Z", flights=2, wind=0.1)
    for at in ("2013-01-01T00:00:00Z", "2013-01-02T00:00:00.000Z"):  # older, and as old
        put(drydock, "newest", "JFK", at, flights=1)
    assert get(drydock, "newest", "JFK") == {
        "airport": "JFK", "at": "2013-01-02T00:00:00Z", "flights": "2", "wind": "0.1",
    }  # fmt: skip
    # A record replaces all values of an older one.
    put(drydock, "newest", "JFK", "2013-01-02T00:00:00.001Z", flights=3)
    assert get(drydock, "newest", "JFK") == {"airport": "JFK", "at": "2013-01-02T00:00:00.001Z", "flights": "3"}
    assert get(drydock, "newest", "JFK", FeatureNames=["flights"]) == {"flights": "3"}
    assert get(drydock, "newest", "LGA") is None

    # A deletion that is as old does nothing, and one that is newer keeps older records away.
    runtime = drydock.client(RUNTIME)
    key = {"FeatureGroupName": "newest", "RecordIdentifierValueAsString": "JFK"}
    runtime.delete_record(**key, EventTime="2013-01-02T00:00:00.001Z")
    assert get(drydock, "newest", "JFK") is not None
    with pytest.raises(runtime.exceptions.ValidationError, match="EventTime"):
        runtime.delete_record(**key, EventTime="2013-01-02T00:00:00Z", DeletionMode="HardDelete")
    runtime.delete_record(**key, EventTime="2013-01-03T00:00:00Z")
    put(drydock, "newest", "JFK", "2013-01-02T12:00:00Z", flights=4)
    assert get(drydock, "newest", "JFK") is None
    runtime.delete_record(**key, EventTime="2013-01-04T00:00:00Z", DeletionMode="HardDelete")
    put(drydock, "newest", "JFK", "2013-01-01T00:00:00Z", flights=5)
    assert get(drydock, "newest", "JFK")["flights"] == "5"


def test_a_batch_reads_records_of_several_groups(drydock: Any) -> None:
    names = ("batch-a", "batch-b")
    arn, _ = [create_group(drydock, name) for name in names]
    for number, airport in enumerate(("EWR", "JFK", 'a "b"/?&=é')):
        put(drydock, "batch-a", airport, "2013-01-01T00:00:00Z", flights=number)
        assert get(drydock, arn, airport)["flights"] == str(number)
    put(drydock, "batch-b", "EWR", "2013-01-01T00:00:00Z", wind=1e-300)
    response = drydock.client(RUNTIME).batch_get_record(
        Identifiers=[
            {"FeatureGroupName": "batch-a", "RecordIdentifiersValueAsString": ["JFK", "LGA", "EWR"]},
            {"FeatureGroupName": "batch-b", "RecordIdentifiersValueAsString": ["EWR"], "FeatureNames": ["wind"]},
            {"FeatureGroupName": "batch-c", "RecordIdentifiersValueAsString": ["EWR"]},
        ]
    )
    records = {
        (record["FeatureGroupName"], record["RecordIdentifierValueAsString"]): _read_values(record["Record"])
        for record in response["Records"]
    }
    assert set(records) == {("batch-a", "JFK"), ("batch-a", "EWR"), ("batch-b", "EWR")}
    assert records["batch-a", "JFK"]["flights"] == "1" and records["batch-b", "EWR"] == {"wind": "1e-300"}
    assert [(error["FeatureGroupName"], error["ErrorCode"]) for error in response["Errors"]] == [
        ("batch-c", "ResourceNotFound")
    ]
    # Another region has other groups.
    with pytest.raises(ClientError, match="ResourceNotFound"):
        drydock.client(RUNTIME, "eu-west-1").get_record(FeatureGroupName="batch-a", RecordIdentifierValueAsString="EWR")


def test_a_record_expires_after_its_ttl(drydock: Any) -> None:
    ttl = {"EnableOnlineStore": True, "TtlDuration": {"Unit": "Days", "Value": 1}}
    create_group(drydock, "expiring", OnlineStoreConfig=ttl)
    runtime, now = drydock.client(RUNTIME), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    put(drydock, "expiring", "JFK", now, flights=1)
    answer = runtime.get_record(
        FeatureGroupName="expiring", RecordIdentifierValueAsString="JFK", ExpirationTimeResponse="Enabled"
    )
    expected_s = time.mktime(time.strptime(now, "%Y-%m-%dT%H:%M:%SZ")) + 86_400
    assert time.mktime(time.strptime(answer["ExpiresAt"], "%Y-%m-%dT%H:%M:%S.000Z")) == expected_s
    put(drydock, "expiring", "LGA", "2013-01-01T00:00:00Z", flights=1)  # it has expired already
    assert get(drydock, "expiring", "LGA") is None
    # A record's own TTL counts, not the group's: this one lives for two seconds.
    runtime.put_record(
        FeatureGroupName="expiring",
        Record=build_record("EWR", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), flights=1),
        TtlDuration={"Unit": "Seconds", "Value": 2},
    )
    drydock.wait_until("the end of the TTL", lambda: get(drydock, "expiring", "EWR") is None)
    assert get(drydock, "expiring", "JFK") is not None


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (build_record("JFK", "2013-01-01", flights=1), "the event time '2013-01-01' is not valid"),
        (build_record("JFK", "2013-02-30T00:00:00Z", flights=1), "the event time '2013-02-30T00:00:00Z' is not valid"),
        (build_record("JFK", "2013-01-01T00:00:00Z", flights="many"), "'many' of the feature flights is not Integral"),
        (build_record("JFK", "2013-01-01T00:00:00Z", wind="strong"), "'strong' of the feature wind is not Fractional"),
        (build_record("JFK", "2013-01-01T00:00:00Z", rain=1), "FeatureGroup checked has no feature with the name rain"),
        (build_record("JFK", "2013-01-01T00:00:00Z")[:1], "must have a value of the feature at"),
        (build_record("", "2013-01-01T00:00:00Z"), "must have a value of the feature airport"),
        (build_record("JFK", "2013-01-01T00:00:00Z") * 2, "the record has the feature airport more than once"),
    ],
)
def test_a_wrong_record_is_refused(drydock: Any, record: list[dict[str, str]], message: str) -> None:
    if not drydock.client("sagemaker").list_feature_groups(NameContains="checked")["FeatureGroupSummaries"]:
        create_group(drydock, "checked")
    runtime = drydock.client(RUNTIME)
    with pytest.raises(runtime.exceptions.ValidationError, match=message):
        runtime.put_record(FeatureGroupName="checked", Record=record)
    assert get(drydock, "checked", "JFK") is None


def test_wrong_requests_are_refused(drydock: Any) -> None:
    runtime = drydock.client(RUNTIME)
    create_group(drydock, "refusing")
    with pytest.raises(ClientError, match=r"ResourceInUse.*FeatureGroup with name Refusing already exists"):
        create_group(drydock, "Refusing")
    for fields, message in (
        ({"EventTimeFeatureName": "no"}, "FeatureDefinitions has no feature no"),
        ({"EventTimeFeatureName": "flights"}, "must be String or Fractional"),
        ({"OnlineStoreConfig": {"EnableOnlineStore": False}}, "EnableOnlineStore must be true"),
        ({"OfflineStoreConfig": {"S3StorageConfig": {"S3Uri": "s3://bucket/x"}}}, "is not supported by drydock"),
        ({"FeatureDefinitions": [*DEFINITIONS, DEFINITIONS[0]]}, "the feature airport is defined more than once"),
        ({"FeatureGroupName": "a b"}, "featureGroupName' failed to satisfy constraint"),
    ):
        with pytest.raises(ClientError, match=message):
            create_group(drydock, "refused", **fields)
    with pytest.raises(runtime.exceptions.ValidationError, match="can't find a FeatureGroup with name nothing"):
        put(drydock, "nothing", "JFK", "2013-01-01T00:00:00Z")
    with pytest.raises(runtime.exceptions.ResourceNotFound, match="can't find a FeatureGroup with name nothing"):
        get(drydock, "nothing", "JFK")
    with pytest.raises(runtime.exceptions.ValidationError, match="no feature with the name rain"):
        get(drydock, "refusing", "JFK", FeatureNames=["rain"])
    with pytest.raises(runtime.exceptions.ValidationError, match="has no OfflineStore"):
        runtime.put_record(
            FeatureGroupName="refusing",
            Record=build_record("JFK", "2013-01-01T00:00:00Z"),
            TargetStores=["OnlineStore", "OfflineStore"],
        )
    # What drydock does not have is not a success.
    with pytest.raises(ClientError):
        runtime.list_records(FeatureGroupName="refusing")


def test_records_survive_a_kill(tmp_path: Path, run_drydock: Any) -> None:
    with run_drydock(tmp_path) as server:
        arn = create_group(server, "kept", Tags=[{"Key": "team", "Value": "flights"}])
        for number in range(50):
            put(server, "kept", f"A{number}", "2013-01-02T00:00:00Z", flights=number)
        server.client(RUNTIME).delete_record(
            FeatureGroupName="kept", RecordIdentifierValueAsString="A0", EventTime="2013-01-03T00:00:00Z"
        )
        server.process.kill()
        server.process.wait(60)
        (tmp_path / "port").unlink()
    with run_drydock(tmp_path) as server:
        assert server.client("sagemaker").list_tags(ResourceArn=arn)["Tags"] == [{"Key": "team", "Value": "flights"}]
        put(server, "kept", "A0", "2013-01-02T12:00:00Z", flights=9)  # older than its deletion
        put(server, "kept", "A1", "2013-01-01T00:00:00Z", flights=9)
        values = [get(server, "kept", f"A{number}") for number in range(50)]
        assert values[0] is None
        assert [record["flights"] for record in values[1:] if record] == [str(number) for number in range(1, 50)]
