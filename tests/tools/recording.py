"""Run a drydock that records the kinds of calls that it receives: `recording.py FILE`, then drydock's options.

`tools/record_calls.py` uses the records: the policies in infra/policies/ have to allow these calls.
"""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

TEST_ACCESS_KEY = "AKIATESTSOWNCALLS000"
"""Access key of the calls by which the tests themselves read results. They are not recorded."""
JOB_ACCESS_KEY = "drydock"
"""Access key of the calls that a job makes, or drydock for it. On AWS, the job's execution role makes both."""
_CREDENTIAL_PATTERN = re.compile(r"Credential=([^/]+)/\d+/([^/]*)/([^/]+)/aws4_request")
_BATCH_ACTIONS = {
    "describejobqueues": "DescribeJobQueues",
    "describeschedulingpolicies": "DescribeSchedulingPolicies",
    "describeservicejob": "DescribeServiceJob",
    "listservicejobs": "ListServiceJobs",
    "getjobqueuesnapshot": "GetJobQueueSnapshot",
    "submitservicejob": "SubmitServiceJob",
    "tags": "TagResource",
    "terminateservicejob": "TerminateServiceJob",
}
"""Actions of AWS Batch, by the first part of their path. The only request of tags is TagResource."""
_BATCH_RESOURCES = {
    "DescribeSchedulingPolicies": "scheduling-policy",
    "GetJobQueueSnapshot": "job-queue",
    "SubmitServiceJob": "job-queue",
    "TagResource": "service-job",
    "TerminateServiceJob": "service-job",
}
"""Kind of the resource of each action that has one. Lists and DescribeServiceJob have none, as DescribeJobs."""
_OBJECT_ACTIONS = {
    "GET": "GetObject",
    "HEAD": "GetObject",
    "PUT": "PutObject",
    "POST": "PutObject",
    "DELETE": "DeleteObject",
}
_BUCKET_ACTIONS = {"GET": "ListBucket", "HEAD": "ListBucket", "PUT": "CreateBucket", "DELETE": "DeleteBucket"}
_RECORD_ACTIONS = {"GET": "GetRecord", "PUT": "PutRecord", "DELETE": "DeleteRecord"}
_FOLDERS = ("features", "code", "jobs", "checkpoints", "processing", "transform", "capture", "data", "status")
"""Folders below the operators' `prefix`, whose default is "leeway"."""


def describe_call(environ: dict[str, Any], body: bytes) -> tuple[str, str, str] | None:
    """Return role, action as IAM names it, and resource; None for an unsigned request and for the tests' own calls.

    Args:
        environ: WSGI environment of the request.
        body: body of a request that is no object of S3.
    """
    match = _CREDENTIAL_PATTERN.search(environ.get("HTTP_AUTHORIZATION", ""))
    if not match or match[1] == TEST_ACCESS_KEY:
        return None
    role, service = "job" if match[1] == JOB_ACCESS_KEY else "airflow", match[3]
    if service == "s3":
        return (role, *_describe_s3_call(environ))
    if service == "batch":
        return (role, *_describe_batch_call(environ["PATH_INFO"]))
    if service == "sagemaker" and "HTTP_X_AMZ_TARGET" not in environ:
        return (role, *_describe_runtime_call(environ["REQUEST_METHOD"], environ["PATH_INFO"]))
    action = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2] or parse_qs(body.decode()).get("Action", ["?"])[0]
    if service == "monitoring":
        return role, f"cloudwatch:{action}", _name_alarm(action)
    return role, f"{service}:{action}", _name_resource(service, action, json.loads(body) if body[:1] == b"{" else {})


def list_implied_calls(call: tuple[str, str, str] | None, body: bytes) -> set[tuple[str, str, str]]:
    """Return the calls that IAM checks beside a call.

    A request that creates a resource of SageMaker with tags is also a call to AddTags. One that creates or updates an
    endpoint needs the same permission on its configuration (github.com/aws/aws-cdk/issues/11594).
    """
    if call is None:
        return set()
    role, action, resource = call
    calls = set()
    if action.startswith("sagemaker:Create") and b'"Tags"' in body:
        calls.add((role, "sagemaker:AddTags", resource))
    if action in ("sagemaker:CreateEndpoint", "sagemaker:UpdateEndpoint"):
        calls.add((role, action, resource.replace(":endpoint/", ":endpoint-config/")))
    return calls


def _describe_batch_call(path: str) -> tuple[str, str]:
    """Return action and resource of a request to AWS Batch, whose paths are /v1/submitservicejob, /v1/tags/ARN ..."""
    name = path.removeprefix("/v1/").split("/")[0]
    action = _BATCH_ACTIONS.get(name, name)
    kind = _BATCH_RESOURCES.get(action)
    return f"batch:{action}", f"arn:aws:batch:REGION:ACCOUNT:{kind}/NAME" if kind else "*"


def _describe_runtime_call(method: str, path: str) -> tuple[str, str]:
    """Return action and resource of a request to an endpoint, or to the records of a feature group."""
    arn = "arn:aws:sagemaker:REGION:ACCOUNT"
    if path.startswith("/endpoints/"):
        action = "InvokeEndpointAsync" if path.endswith("/async-invocations") else "InvokeEndpoint"
        return f"sagemaker:{action}", f"{arn}:endpoint/NAME"
    action = "BatchGetRecord" if path == "/BatchGetRecord" else _RECORD_ACTIONS[method]
    return f"sagemaker:{action}", f"{arn}:feature-group/NAME"


def _describe_s3_call(environ: dict[str, Any]) -> tuple[str, str]:
    bucket, _, key = environ["PATH_INFO"].lstrip("/").partition("/")
    query, method = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True), environ["REQUEST_METHOD"]
    if not bucket:
        return "s3:ListAllMyBuckets", "*"
    if key:
        action = "AbortMultipartUpload" if method == "DELETE" and "uploadId" in query else _OBJECT_ACTIONS[method]
        return f"s3:{action}", f"arn:aws:s3:::{bucket}/{_shorten_key(key)}"
    for word, action in (("delete", "DeleteObject"), ("location", "GetBucketLocation"), ("uploads", "ListUploads")):
        if word in query:
            return f"s3:{action}", f"arn:aws:s3:::{bucket}" + ("/*" if word == "delete" else "")
    return f"s3:{_BUCKET_ACTIONS[method]}", f"arn:aws:s3:::{bucket}"


def _shorten_key(key: str) -> str:
    """Return the folder of a key as policies name it, with x in place of the names of tests, runs, jobs and digests."""
    folders = key.split("/")[:-1]
    if folders[:1] in (["dvc"], ["lake"]):
        return f"{folders[0]}/x"
    return next((f"leeway/{folder}/x" for folder in folders if folder in _FOLDERS), "x")


_RESOURCE_TYPES = {
    "TrainingJob": "training-job",
    "ProcessingJob": "processing-job",
    "TransformJob": "transform-job",
    "HyperParameterTuningJob": "hyper-parameter-tuning-job",
    "TrainingJobsForHyperParameterTuningJob": "hyper-parameter-tuning-job",
    "ModelPackageGroup": "model-package-group",
    "ModelPackage": "model-package",
    "Model": "model",
    "EndpointConfig": "endpoint-config",
    "Endpoint": "endpoint",
    "FeatureGroup": "feature-group",
    "NotebookInstance": "notebook-instance",
    "App": "app",
}
_LISTS_OF_ONE = ("ListTags", "ListTrainingJobsForHyperParameterTuningJob")
"""Actions that list what belongs to one resource. The other lists have no resource."""
_RECORD_ACTIONS = {"PUT": "PutRecord", "GET": "GetRecord", "DELETE": "DeleteRecord", "POST": "BatchGetRecord"}
"""Actions of Feature Store's runtime, by method: its requests name no action."""


def _name_resource(service: str, action: str, request: dict[str, Any]) -> str:
    """Return the ARN of the resource, with NAME instead of each name."""
    arn = f"arn:aws:{service}:REGION:ACCOUNT"
    if service == "sagemaker":
        if action.startswith("List") and action not in _LISTS_OF_ONE:
            return "*"
        tagged_arn = request.get("ResourceArn", "")
        resource_type = (
            tagged_arn.rpartition(":")[2].split("/")[0]
            if tagged_arn
            else _RESOURCE_TYPES[re.sub(r"^[A-Z][a-z]+", "", action)]
        )
        return f"{arn}:{resource_type}/NAME"
    if service == "logs":
        # For IAM, a call on a log group is a call on a stream with an empty name.
        stream = "NAME" if "logStreamName" in request else ""
        group = re.sub(r"(/Endpoints/).*", r"\1NAME", request["logGroupName"])
        return f"{arn}:log-group:{group}:log-stream:{stream}"
    if service == "glue":
        is_table = "DatabaseName" in request
        return f"{arn}:" + (
            f"table/{request['DatabaseName']}/NAME" if is_table else f"database/{_get_database_name(request)}"
        )
    if service == "secretsmanager":
        return f"{arn}:secret:{request['SecretId'].rpartition('/')[0]}/NAME"
    return "*"


def _name_alarm(action: str) -> str:
    """Return the ARN of the alarms that an operation of CloudWatch is about; * for metrics."""
    return "arn:aws:cloudwatch:REGION:ACCOUNT:alarm:leeway-NAME" if "Alarm" in action else "*"


def _get_database_name(request: dict[str, Any]) -> str:
    return str(request.get("Name") or request.get("DatabaseInput", {}).get("Name") or "*")


def serve(file: Path) -> None:
    """Run drydock, and append each kind of call that it receives to the file once."""
    from drydock.__main__ import app
    from drydock.api import server

    recorded_calls: set[tuple[str, str, str] | None] = set()
    handle = server.Application.__call__

    def record_and_handle(self: server.Application, environ: dict[str, Any], start_response: Any) -> Any:
        body = b""
        if "HTTP_X_AMZ_TARGET" in environ or "form" in environ.get("CONTENT_TYPE", ""):
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            environ["wsgi.input"] = io.BytesIO(body)
        call = describe_call(environ, body)
        for new_call in {call, *list_implied_calls(call, body)} - {None, *recorded_calls}:
            recorded_calls.add(new_call)
            with file.open("a") as output:
                output.write(json.dumps(new_call) + "\n")
        return handle(self, environ, start_response)

    server.Application.__call__ = record_and_handle
    app()


if __name__ == "__main__":
    serve(Path(sys.argv.pop(1)))
