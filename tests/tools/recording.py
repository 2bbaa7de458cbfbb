"""A drydock that notes which calls it gets, by whom and of what: `recording.py FILE`, then drydock's options.

What it notes is what infra/policies/ has to allow: `tools/record_calls.py`.
"""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

TESTS = "AKIATESTSOWNCALLS000"
"""Key of the calls that the tests make to look at the outcome: nobody else's."""
PLATFORM = "drydock"
"""Key of what drydock does for a job, and of the job itself: on AWS both have the job's execution role."""
_SIGNED = re.compile(r"Credential=([^/]+)/\d+/([^/]*)/([^/]+)/aws4_request")
_OBJECT = {"GET": "GetObject", "HEAD": "GetObject", "PUT": "PutObject", "POST": "PutObject", "DELETE": "DeleteObject"}
_BUCKET = {"GET": "ListBucket", "HEAD": "ListBucket", "PUT": "CreateBucket", "DELETE": "DeleteBucket"}


_PARTS = ("features", "code", "jobs", "checkpoints", "processing", "transform", "data")
"""Below the operators' `prefix`, which is "leeway" where nobody says another one."""


def call(environ: dict[str, Any], body: bytes) -> tuple[str, str, str] | None:
    """Who, action as IAM names it, and resource; None of what is not signed, and of the tests' own calls."""
    signed = _SIGNED.search(environ.get("HTTP_AUTHORIZATION", ""))
    if not signed or signed[1] == TESTS:
        return None
    who, service = "job" if signed[1] == PLATFORM else "airflow", signed[3]
    if service == "s3":
        return (who, *_s3(environ))
    target = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2] or parse_qs(body.decode()).get("Action", ["?"])[0]
    return who, f"{service}:{target}", _resource(service, target, json.loads(body) if body[:1] == b"{" else {})


def _s3(environ: dict[str, Any]) -> tuple[str, str]:
    bucket, _, key = environ["PATH_INFO"].lstrip("/").partition("/")
    query, method = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True), environ["REQUEST_METHOD"]
    if not bucket:
        return "s3:ListAllMyBuckets", "*"
    if key:
        aborts = method == "DELETE" and "uploadId" in query
        return f"s3:{'AbortMultipartUpload' if aborts else _OBJECT[method]}", f"arn:aws:s3:::{bucket}/{_place(key)}"
    for word, action in (("delete", "DeleteObject"), ("location", "GetBucketLocation"), ("uploads", "ListUploads")):
        if word in query:
            return f"s3:{action}", f"arn:aws:s3:::{bucket}" + ("/*" if word == "delete" else "")
    return f"s3:{_BUCKET[method]}", f"arn:aws:s3:::{bucket}"


def _place(key: str) -> str:
    """The part of the bucket that a key is in; names of tests, runs, jobs and digests say nothing to a policy."""
    folders = key.split("/")[:-1]
    if folders[:1] in (["dvc"], ["lake"]):
        return f"{folders[0]}/x"
    return next((f"leeway/{one}/x" for one in folders if one in _PARTS), "x")


_KINDS = {
    "TrainingJob": "training-job",
    "ProcessingJob": "processing-job",
    "TransformJob": "transform-job",
    "ModelPackageGroup": "model-package-group",
    "ModelPackage": "model-package",
    "Model": "model",
}


def _resource(service: str, action: str, asked: dict[str, Any]) -> str:
    """The ARN, with names of one sort made one."""
    arn = f"arn:aws:{service}:REGION:ACCOUNT"
    if service == "sagemaker":
        if action.startswith("List") and action != "ListTags":
            return "*"
        told = asked.get("ResourceArn", "")
        kind = told.rpartition(":")[2].split("/")[0] if told else _KINDS[re.sub(r"^[A-Z][a-z]+", "", action)]
        return f"{arn}:{kind}/NAME"
    if service == "logs":
        # As IAM sees it, a question about a group is one about a stream without a name.
        stream = "NAME" if "logStreamName" in asked else ""
        return f"{arn}:log-group:{asked['logGroupName']}:log-stream:{stream}"
    if service == "glue":
        return (
            f"{arn}:table/{asked['DatabaseName']}/NAME" if "DatabaseName" in asked else f"{arn}:database/{_base(asked)}"
        )
    if service == "secretsmanager":
        return f"{arn}:secret:{asked['SecretId'].rpartition('/')[0]}/NAME"
    return "*"


def _base(asked: dict[str, Any]) -> str:
    return str(asked.get("Name") or asked.get("DatabaseInput", {}).get("Name") or "*")


def serve(file: Path) -> None:
    """Runs drydock; each sort of call that it gets is appended to the file once."""
    from drydock.__main__ import app
    from drydock.api import server

    seen: set[tuple[str, str, str]] = set()
    answer = server.Application.__call__

    def note(self: server.Application, environ: dict[str, Any], start_response: Any) -> Any:
        body = b""
        if "HTTP_X_AMZ_TARGET" in environ or "form" in environ.get("CONTENT_TYPE", ""):
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            environ["wsgi.input"] = io.BytesIO(body)
        found = call(environ, body)
        if found and found not in seen:
            seen.add(found)
            with file.open("a") as lines:
                lines.write(json.dumps(found) + "\n")
        return answer(self, environ, start_response)

    server.Application.__call__ = note  # type: ignore[method-assign]
    app()


if __name__ == "__main__":
    serve(Path(sys.argv.pop(1)))
