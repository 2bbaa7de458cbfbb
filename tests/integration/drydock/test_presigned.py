"""Test presigned requests with boto3: they work in their time, and change nothing after it."""

import io
import urllib.error
import urllib.request
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from werkzeug.test import EnvironBuilder

BUCKET = "bucket"


def send(url: str, method: str = "GET", data: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """Send a request without credentials. Return the status and the body."""
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def send_form(post: dict[str, Any], body: bytes) -> tuple[int, bytes]:
    """Send an upload by POST, as a browser does."""
    form = {**post["fields"], "file": (io.BytesIO(body), "file")}
    environ = EnvironBuilder(method="POST", data=form).get_environ()
    return send(post["url"], "POST", environ["wsgi.input"].read(), **{"Content-Type": environ["CONTENT_TYPE"]})


def create_client(drydock: Any, version: str) -> Any:
    """Return a client that signs by this version."""
    config = Config(signature_version=version, s3={"addressing_style": "path"}, proxies={})
    session = boto3.session.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1")
    return session.client("s3", endpoint_url=drydock.url, config=config)


@pytest.mark.parametrize("version", ["s3v4", "s3"])
def test_url_is_refused_after_its_time(drydock: Any, version: str) -> None:
    client, key = create_client(drydock, version), f"read-{version}"
    drydock.put(key, b"content")
    get = {"Bucket": BUCKET, "Key": key}
    assert send(client.generate_presigned_url("get_object", get, ExpiresIn=3600)) == (200, b"content")
    put = client.generate_presigned_url("put_object", {"Bucket": BUCKET, "Key": f"w-{version}"}, ExpiresIn=1)
    url = client.generate_presigned_url("get_object", get, ExpiresIn=1)
    status, body = drydock.wait_until("the end of its time", lambda: (answer := send(url))[0] != 200 and answer)
    assert status == 403
    assert b"<Code>AccessDenied</Code><Message>Request has expired</Message>" in body
    assert send(url, "HEAD") == (403, b"")
    assert send(put, "PUT", b"late")[0] == 403
    with pytest.raises(ClientError, match="404"):
        drydock.client("s3").head_object(Bucket=BUCKET, Key=f"w-{version}")
    assert drydock.get(f"s3://{BUCKET}/{key}") == b"content"


def test_upload_by_post_is_refused_after_its_time(drydock: Any) -> None:
    client = create_client(drydock, "s3v4")
    assert send_form(client.generate_presigned_post(BUCKET, "posted", ExpiresIn=60), b"in time")[0] == 204
    assert drydock.get(f"s3://{BUCKET}/posted") == b"in time"
    status, body = send_form(client.generate_presigned_post(BUCKET, "posted", ExpiresIn=-60), b"late")
    assert status == 403 and b"Policy expired" in body
    assert drydock.get(f"s3://{BUCKET}/posted") == b"in time"
