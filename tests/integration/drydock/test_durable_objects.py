"""Test that objects of S3 and events of Logs survive SIGKILL of the server."""

import contextlib
import hashlib
import os
import random
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.tools import forking

REPOSITORY = Path(__file__).parents[3]
TIMEOUT_S = 180.0
BUCKET, GROUP = "durable-objects", "group"
PART_BYTES = 1000
"""A small part, so that uploads in parts are small."""


class Server:
    """A `python -m drydock` that can be killed and started again on the same data folder.

    Args:
        folder: Folder of the server.
        variables: Variables that are added to the environment.
    """

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder, self.variables = folder, variables
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        port = self.folder / "port"
        port.unlink(missing_ok=True)
        command = [sys.executable, "-m", "drydock", "--port", "0", "--data", str(self.folder / "data")]
        env = {**os.environ, "PYTHONPATH": str(REPOSITORY), **self.variables}
        with (self.folder / "log").open("ab") as log:
            self.process = forking.Popen(
                [*command, "--port-file", str(port)], cwd=self.folder, env=env, stdout=log, stderr=log
            )
        deadline = time.monotonic() + TIMEOUT_S
        while not port.exists():
            assert self.process.poll() is None and time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.02)
        self.url = f"http://127.0.0.1:{port.read_text()}"

    def kill(self) -> None:
        """Kill the server by SIGKILL."""
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def restart(self) -> None:
        """Kill the server, and start it again."""
        self.kill()
        self.start()

    def client(self, service: str) -> Any:
        """Create a client of a service."""
        session = boto3.session.Session(aws_access_key_id="a", aws_secret_access_key="a", region_name="us-east-1")
        config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, proxies={})
        return session.client(service, endpoint_url=self.url, config=config)

    @property
    def s3(self) -> Any:
        """A new client of S3."""
        return self.client("s3")

    def find_blob(self, size: int) -> Path:
        """Return the file of the object that has this size."""
        return next(path for path in (self.folder / "data" / "objects").glob("*/*") if path.stat().st_size == size)


@contextlib.contextmanager
def run_server(folder: Path, **variables: str) -> Iterator[Server]:
    """Run a server with a bucket during a block."""
    server = Server(folder, **variables)
    try:
        server.s3.create_bucket(Bucket=BUCKET)
        yield server
    finally:
        server.kill()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Start a server with a bucket."""
    with run_server(tmp_path) as server:
        yield server


@pytest.fixture
def server_of_small_parts(tmp_path: Path) -> Iterator[Server]:
    """Start a server that takes uploads in small parts. moto reads the variable at its import: no fork is used."""
    with run_server(tmp_path, S3_UPLOAD_PART_MIN_SIZE="1") as server:
        yield server


def read(s3: Any, key: str, **options: Any) -> bytes | None:
    """Return the content of an object, or None where there is none."""
    try:
        return bytes(s3.get_object(Bucket=BUCKET, Key=key, **options)["Body"].read())
    except s3.exceptions.NoSuchKey:
        return None


def put_parts(s3: Any, key: str, body: bytes, **options: Any) -> str:
    """Upload an object in parts, and return its ETag."""
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key=key, **options)["UploadId"]
    names = {"Bucket": BUCKET, "Key": key, "UploadId": upload}
    parts = []
    for number, start in enumerate(range(0, len(body), PART_BYTES), 1):
        etag = s3.upload_part(**names, PartNumber=number, Body=body[start : start + PART_BYTES])["ETag"]
        parts.append({"PartNumber": number, "ETag": etag})
    return str(s3.complete_multipart_upload(**names, MultipartUpload={"Parts": parts})["ETag"])


def compute_parts_etag(body: bytes) -> str:
    """Return the ETag that S3 gives an object that was uploaded in parts."""
    digests = [hashlib.md5(body[start : start + PART_BYTES]).digest() for start in range(0, len(body), PART_BYTES)]
    return f'"{hashlib.md5(b"".join(digests)).hexdigest()}-{len(digests)}"'


class Writer(threading.Thread):
    """Change the writer's own objects, and one that all writers share, until the server does not answer."""

    def __init__(self, number: int, s3: Any, stored: dict[str, bytes | None], seed: int) -> None:
        super().__init__()
        self.s3, self.stored, self.random = s3, stored, random.Random(seed)
        self.names = [f"w{number}/key {i}" for i in range(5)]
        self.pending: dict[str, bytes | None] = {}
        self.count = 0

    def run(self) -> None:
        # boto3 raises KeyError for a response that the kill cut off after its headers.
        with contextlib.suppress(BotoCoreError, ClientError, KeyError):
            while True:
                self.change(self.random.choice(self.names))
                self.s3.put_object(Bucket=BUCKET, Key="shared", Body=self.make_body())

    def make_body(self) -> bytes:
        """Return random bytes after their digest."""
        data = self.random.randbytes(self.random.choice([0, 1, 900, 3500, 40_000]))
        return hashlib.sha256(data).digest() + data

    def change(self, name: str) -> None:
        """Change an object in a random way; record the change once it is acknowledged."""
        action = self.random.choice(["put", "put", "parts", "copy", "delete", "delete many"])
        new_content = None if action.startswith("delete") else self.make_body()
        if action == "copy":
            self.s3.put_object(Bucket=BUCKET, Key=f"from/{name}", Body=new_content)
        self.pending = {name: new_content}
        actions: dict[str, Callable[[], Any]] = {
            "put": lambda: self.s3.put_object(Bucket=BUCKET, Key=name, Body=new_content),
            "parts": lambda: put_parts(self.s3, name, new_content or b""),
            "copy": lambda: self.s3.copy_object(
                Bucket=BUCKET, Key=name, CopySource={"Bucket": BUCKET, "Key": f"from/{name}"}
            ),
            "delete": lambda: self.s3.delete_object(Bucket=BUCKET, Key=name),
            "delete many": lambda: self.s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": name}]}),
        }
        actions[action]()
        self.stored[name] = new_content
        self.pending = {}
        self.count += 1


@pytest.mark.parametrize("kills", [2, pytest.param(5, marks=pytest.mark.soak)])
def test_every_acknowledged_change_survives_sigkill(server_of_small_parts: Server, kills: int) -> None:
    server = server_of_small_parts
    stored: dict[str, bytes | None] = {}
    generator = random.Random(7)
    for turn in range(kills):
        # botocore's loaders are not thread-safe while a client is created.
        writers = [Writer(number, server.s3, stored, 100 * turn + number) for number in range(8)]
        for writer in writers:
            writer.start()
        while sum(writer.count for writer in writers) < 40:
            assert any(writer.is_alive() for writer in writers)
            time.sleep(0.01)
        time.sleep(generator.random() / 2)
        server.kill()
        for writer in writers:
            writer.join(TIMEOUT_S)
        server.start()
        s3 = server.s3
        for writer in writers:
            for name in writer.names:
                content = read(s3, name)
                allowed_contents = [stored.get(name), *([writer.pending[name]] if name in writer.pending else [])]
                assert content in allowed_contents, f"{name} has content that nobody wrote, in turn {turn}"
                stored[name] = content
        shared_content = read(s3, "shared")
        assert shared_content is not None and hashlib.sha256(shared_content[32:]).digest() == shared_content[:32]
        keys = [item["Key"] for item in s3.list_objects_v2(Bucket=BUCKET, Prefix="w")["Contents"]]
        assert keys == sorted(name for name, body in stored.items() if body is not None)
    # The files of deleted objects are deleted, too.
    count = s3.list_objects_v2(Bucket=BUCKET)["KeyCount"]
    assert len(list((server.folder / "data" / "objects").glob("*/*"))) == count


def test_all_properties_of_an_object_are_restored(server_of_small_parts: Server) -> None:
    server = server_of_small_parts
    s3 = server.s3
    properties = {
        "Metadata": {"colour": "blue"}, "ContentType": "text/plain", "ContentEncoding": "gzip",
        "CacheControl": "no-store", "StorageClass": "STANDARD_IA", "Tagging": "a=1&b=2",
    }  # fmt: skip
    s3.put_object(Bucket=BUCKET, Key="ü/one +%", Body=b"1", ACL="public-read", ChecksumAlgorithm="SHA256", **properties)
    s3.copy_object(Bucket=BUCKET, Key="copied", CopySource={"Bucket": BUCKET, "Key": "ü/one +%"})
    assert put_parts(s3, "parts", bytes(3500), ACL="private", **properties) == compute_parts_etag(bytes(3500))
    form = s3.generate_presigned_url("put_object", {"Bucket": BUCKET, "Key": "signed"})
    with urllib.request.urlopen(urllib.request.Request(form, data=b"by a signed URL", method="PUT")) as response:
        assert response.status == 200
    s3.put_object_tagging(Bucket=BUCKET, Key="signed", Tagging={"TagSet": [{"Key": "later", "Value": "yes"}]})
    s3.put_object_acl(Bucket=BUCKET, Key="signed", ACL="public-read")

    def read_properties() -> list[Any]:
        values = [server.s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
        for key in ("ü/one +%", "copied", "parts", "signed"):
            names = {"Bucket": BUCKET, "Key": key}
            head = server.s3.get_object(**names, ChecksumMode="ENABLED")
            body = head.pop("Body").read()
            head.pop("ResponseMetadata")
            tags, grants = server.s3.get_object_tagging(**names)["TagSet"], server.s3.get_object_acl(**names)["Grants"]
            values.append([head, body, tags, grants])
        return values

    expected = read_properties()
    server.restart()
    assert read_properties() == expected
    assert expected[3][0]["ETag"] == compute_parts_etag(bytes(3500)) and expected[1][0]["Metadata"] == {
        "colour": "blue"
    }
    assert expected[4][2] == [{"Key": "later", "Value": "yes"}]


def test_versions_and_markers_are_restored_in_order(server: Server) -> None:
    s3 = server.s3
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    ids = [s3.put_object(Bucket=BUCKET, Key="key", Body=str(n).encode())["VersionId"] for n in range(4)]
    s3.delete_object(Bucket=BUCKET, Key="key", VersionId=ids[1])
    s3.delete_object(Bucket=BUCKET, Key="key")

    def list_versions() -> list[Any]:
        response = server.s3.list_object_versions(Bucket=BUCKET)
        return [response["Versions"], response["DeleteMarkers"]]

    expected = list_versions()
    server.restart()
    assert list_versions() == expected
    s3 = server.s3
    assert read(s3, "key") is None
    assert [read(s3, "key", VersionId=ids[n]) for n in (0, 2, 3)] == [b"0", b"2", b"3"]
    with pytest.raises(ClientError, match="NoSuchVersion"):
        s3.get_object(Bucket=BUCKET, Key="key", VersionId=ids[1])
    # When the marker is deleted, the newest version is the object again, also after one more kill.
    s3.delete_object(Bucket=BUCKET, Key="key", VersionId=expected[1][0]["VersionId"])
    server.restart()
    assert read(server.s3, "key") == b"3"


@pytest.mark.soak
def test_concurrent_versions_are_all_stored(server: Server) -> None:
    server.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    clients = [server.s3 for _ in range(8)]

    def put(number: int) -> None:
        for turn in range(10):
            clients[number].put_object(Bucket=BUCKET, Key="key", Body=f"{number} {turn}".encode())

    threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.restart()
    assert len(server.s3.list_object_versions(Bucket=BUCKET)["Versions"]) == 80


def test_buckets_are_restored_unless_deleted(server: Server) -> None:
    s3, names = server.s3, {"Bucket": BUCKET}
    rule = {"ID": "r", "Status": "Enabled", "Filter": {"Prefix": "p"}, "Expiration": {"Days": 3}}
    s3.put_bucket_tagging(**names, Tagging={"TagSet": [{"Key": "a", "Value": "1"}]})
    s3.put_bucket_lifecycle_configuration(**names, LifecycleConfiguration={"Rules": [rule]})
    s3.put_bucket_policy(**names, Policy='{"Version": "2012-10-17", "Statement": []}')
    s3.create_bucket(Bucket="deleted")
    s3.put_object(Bucket="deleted", Key="key", Body=b"")
    s3.delete_object(Bucket="deleted", Key="key")
    s3.delete_bucket(Bucket="deleted")
    buckets = s3.list_buckets()["Buckets"]
    server.restart()
    s3 = server.s3
    assert s3.list_buckets()["Buckets"] == buckets and [bucket["Name"] for bucket in buckets] == [BUCKET]
    assert s3.get_bucket_tagging(**names)["TagSet"] == [{"Key": "a", "Value": "1"}]
    assert s3.get_bucket_lifecycle_configuration(**names)["Rules"] == [rule]
    assert s3.get_bucket_policy(**names)["Policy"].startswith("{")


def test_accounts_are_separate_after_a_restart(server: Server) -> None:
    def list_buckets(account: str) -> str:
        request = urllib.request.Request(server.url, headers={"x-moto-account-id": account})
        with urllib.request.urlopen(request) as response:
            return str(response.read().decode())

    request = urllib.request.Request(
        f"{server.url}/foreign", method="PUT", headers={"x-moto-account-id": "111111111111"}
    )
    urllib.request.urlopen(request).close()
    for _ in range(2):
        assert "foreign" in list_buckets("111111111111") and BUCKET not in list_buckets("111111111111")
        assert BUCKET in list_buckets("123456789012")
        server.restart()


def test_damaged_file_gives_an_error_response(server: Server) -> None:
    server.s3.put_object(Bucket=BUCKET, Key="key", Body=b"x" * 999)
    server.kill()
    server.find_blob(999).write_bytes(b"y" * 999)
    server.start()
    with pytest.raises(ClientError) as error:
        server.s3.get_object(Bucket=BUCKET, Key="key")
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert error.value.response["Error"]["Code"] == "InternalError"
    server.s3.put_object(Bucket=BUCKET, Key="key", Body=b"new")
    assert read(server.s3, "key") == b"new"


def test_aborted_upload_stores_nothing_and_blocks_no_other_request(server: Server) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"PUT /{BUCKET}/key HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf".encode())
        server.s3.put_object(Bucket=BUCKET, Key="key", Body=b"whole")
        server.s3.create_bucket(Bucket="another")
    assert read(server.s3, "key") == b"whole"


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_acknowledged_log_events_survive_sigkill(server: Server, kills: int) -> None:
    logs = server.client("logs")
    logs.create_log_group(logGroupName=GROUP)
    counts: dict[str, int] = {f"stream-{number}": 0 for number in range(4)}

    def write(client: Any, name: str) -> None:
        with contextlib.suppress(BotoCoreError, ClientError):
            while True:
                lines = [f"{counts[name] + i}" for i in range(50)]
                events = [{"timestamp": int(time.time() * 1000), "message": line} for line in lines]
                client.put_log_events(logGroupName=GROUP, logStreamName=name, logEvents=events)
                counts[name] += 50

    for turn in range(kills):
        for name in counts if turn == 0 else ():
            logs.create_log_stream(logGroupName=GROUP, logStreamName=name)
        threads = [threading.Thread(target=write, args=(server.client("logs"), name)) for name in counts]
        for thread in threads:
            thread.start()
        while min(counts.values()) < 500 * (turn + 1):
            assert any(thread.is_alive() for thread in threads)
            time.sleep(0.01)
        server.kill()
        for thread in threads:
            thread.join(TIMEOUT_S)
        server.start()
        logs = server.client("logs")
        for name, count in counts.items():
            messages = [event["message"] for event in read_events(logs, name)]
            # All acknowledged events are there. The last batch, without an answer, is there as a whole or not at all.
            assert messages == [str(number) for number in range(len(messages))]
            assert len(messages) in (count, count + 50)
            counts[name] = len(messages)


def read_events(logs: Any, name: str) -> Iterator[dict[str, Any]]:
    """Yield the events as the provider's AwsLogsHook does: until the response has the token of the request."""
    token: dict[str, str] = {}
    while True:
        response = logs.get_log_events(logGroupName=GROUP, logStreamName=name, startFromHead=True, **token)
        yield from response["events"]
        if response["nextForwardToken"] == token.get("nextToken"):
            return
        token = {"nextToken": response["nextForwardToken"]}
