"""Test moto's Lambda in drydock: it uses the log store from inside the server."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

HANDLER = "def handler(event, context):\n    return event\n"


def create_function(server: Any, name: str, code: bytes, publish: bool) -> str:
    """Create a function, and return its version."""
    policy = json.dumps({"Version": "2012-10-17", "Statement": []})
    role = server.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=policy)["Role"]["Arn"]
    function = server.client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.11",
        Role=role,
        Handler="lambda_function.handler",
        Code={"ZipFile": code},
        Publish=publish,
    )
    return str(function["Version"])


def check_log(logs: Any, group: str) -> None:
    """Check that the log of a function is read like that of a job."""
    (stream,) = logs.describe_log_streams(logGroupName=group)["logStreams"]
    query = {"logGroupName": group, "logStreamName": stream["logStreamName"], "startFromHead": True}
    page = logs.get_log_events(**query)
    assert page["events"] and all(isinstance(event["timestamp"], int) for event in page["events"])
    assert stream["firstEventTimestamp"] == page["events"][0]["timestamp"]
    assert logs.get_log_events(**query, nextToken=page["nextForwardToken"])["events"] == []
    assert logs.filter_log_events(logGroupName=group)["events"]


def test_functions_are_published_and_their_logs_are_read(tmp_path: Path, run_drydock: Any) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("lambda_function.py", HANDLER)
    # Without a container engine each function fails, and moto logs why. With one, moto would pull an image.
    with run_drydock(tmp_path, environment={"DOCKER_HOST": "tcp://127.0.0.1:1"}) as server:
        assert create_function(server, "published", buffer.getvalue(), True) == "1"
        assert create_function(server, "plain", buffer.getvalue(), False) == "$LATEST"
        assert server.client("lambda").publish_version(FunctionName="plain")["Version"] == "1"
        for name in ("published", "plain"):
            server.client("lambda").invoke(FunctionName=name, Payload=b"{}")
            check_log(server.client("logs"), f"/aws/lambda/{name}")
