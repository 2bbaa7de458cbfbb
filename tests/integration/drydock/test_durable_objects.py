"""What clients put into S3 and Logs outlives kill -9 of the server."""

import contextlib
import hashlib
import os
import random
import socket
import subprocess
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

REPOSITORY = Path(__file__).parents[3]
PATIENCE_S = 60.0
BUCKET, GROUP = "kept", "group"
# So that an upload in parts is small.
PART_BYTES = 1000


class Server:
    """`python -m drydock` on one data folder, to be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.start()

    def start(self) -> None:
        port = self.folder / "port"
        port.unlink(missing_ok=True)
        command = [sys.executable, "-m", "drydock", "--port", "0", "--data", str(self.folder / "data")]
        env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "S3_UPLOAD_PART_MIN_SIZE": "1"}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--port-file", str(port)], cwd=self.folder, env=env, stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE_S
        while not port.exists():
            assert self.process.poll() is None and time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.02)
        self.url = f"http://127.0.0.1:{port.read_text()}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def again(self) -> None:
        self.kill()
        self.start()

    def client(self, service: str) -> Any:
        session = boto3.session.Session(aws_access_key_id="a", aws_secret_access_key="a", region_name="us-east-1")
        config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, proxies={})
        return session.client(service, endpoint_url=self.url, config=config)

    @property
    def s3(self) -> Any:
        return self.client("s3")

    def blob_of(self, size: int) -> Path:
        return next(path for path in (self.folder / "data" / "objects").glob("*/*") if path.stat().st_size == size)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    made.s3.create_bucket(Bucket=BUCKET)
    yield made
    made.kill()


def read(s3: Any, key: str, **more: Any) -> bytes | None:
    try:
        return bytes(s3.get_object(Bucket=BUCKET, Key=key, **more)["Body"].read())
    except s3.exceptions.NoSuchKey:
        return None


def put_parts(s3: Any, key: str, body: bytes, **more: Any) -> str:
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key=key, **more)["UploadId"]
    names = {"Bucket": BUCKET, "Key": key, "UploadId": upload}
    parts = []
    for number, start in enumerate(range(0, len(body), PART_BYTES), 1):
        etag = s3.upload_part(**names, PartNumber=number, Body=body[start : start + PART_BYTES])["ETag"]
        parts.append({"PartNumber": number, "ETag": etag})
    return str(s3.complete_multipart_upload(**names, MultipartUpload={"Parts": parts})["ETag"])


def parts_etag(body: bytes) -> str:
    sums = [hashlib.md5(body[at : at + PART_BYTES]).digest() for at in range(0, len(body), PART_BYTES)]
    return f'"{hashlib.md5(b"".join(sums)).hexdigest()}-{len(sums)}"'


class Writer(threading.Thread):
    """Changes objects that are its own, and one that all share, until the server does not answer any more."""

    def __init__(self, number: int, s3: Any, kept: dict[str, bytes | None], seed: int) -> None:
        super().__init__()
        self.s3, self.kept, self.random = s3, kept, random.Random(seed)
        self.names = [f"w{number}/key {i}" for i in range(5)]
        self.open: dict[str, bytes | None] = {}
        self.count = 0

    def run(self) -> None:
        # KeyError: boto3 passes on an answer that the kill cut after its headers.
        with contextlib.suppress(BotoCoreError, ClientError, KeyError):
            while True:
                self.act(self.random.choice(self.names))
                self.s3.put_object(Bucket=BUCKET, Key="shared", Body=self.body())

    def body(self) -> bytes:
        data = self.random.randbytes(self.random.choice([0, 1, 900, 3500, 40_000]))
        return hashlib.sha256(data).digest() + data

    def act(self, name: str) -> None:
        way = self.random.choice(["put", "put", "parts", "copy", "delete", "delete many"])
        new = None if way.startswith("delete") else self.body()
        if way == "copy":
            self.s3.put_object(Bucket=BUCKET, Key=f"from/{name}", Body=new)
        self.open = {name: new}
        ways: dict[str, Callable[[], Any]] = {
            "put": lambda: self.s3.put_object(Bucket=BUCKET, Key=name, Body=new),
            "parts": lambda: put_parts(self.s3, name, new or b""),
            "copy": lambda: self.s3.copy_object(
                Bucket=BUCKET, Key=name, CopySource={"Bucket": BUCKET, "Key": f"from/{name}"}
            ),
            "delete": lambda: self.s3.delete_object(Bucket=BUCKET, Key=name),
            "delete many": lambda: self.s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": name}]}),
        }
        ways[way]()
        self.kept[name] = new
        self.open = {}
        self.count += 1


@pytest.mark.parametrize("kills", [2, pytest.param(5, marks=pytest.mark.soak)])
def test_every_acknowledged_change_survives_kill_9(server: Server, kills: int) -> None:
    kept: dict[str, bytes | None] = {}
    moments = random.Random(7)
    for turn in range(kills):
        # botocore's loaders are not thread-safe while a client is being made.
        writers = [Writer(number, server.s3, kept, 100 * turn + number) for number in range(8)]
        for writer in writers:
            writer.start()
        while sum(writer.count for writer in writers) < 40:
            assert any(writer.is_alive() for writer in writers)
            time.sleep(0.01)
        time.sleep(moments.random() / 2)
        server.kill()
        for writer in writers:
            writer.join(PATIENCE_S)
        server.start()
        s3 = server.s3
        for writer in writers:
            for name in writer.names:
                found = read(s3, name)
                allowed = [kept.get(name), *([writer.open[name]] if name in writer.open else [])]
                assert found in allowed, f"{name} in turn {turn}"
                kept[name] = found
        shared = read(s3, "shared")
        assert shared is not None and hashlib.sha256(shared[32:]).digest() == shared[:32]
        listed = [item["Key"] for item in s3.list_objects_v2(Bucket=BUCKET, Prefix="w")["Contents"]]
        assert listed == sorted(name for name, body in kept.items() if body is not None)
    # No bytes of what is gone are left behind.
    everything = s3.list_objects_v2(Bucket=BUCKET)["KeyCount"]
    assert len(list((server.folder / "data" / "objects").glob("*/*"))) == everything


def test_all_properties_of_an_object_are_restored(server: Server) -> None:
    s3 = server.s3
    more = {
        "Metadata": {"colour": "blue"}, "ContentType": "text/plain", "ContentEncoding": "gzip",
        "CacheControl": "no-store", "StorageClass": "STANDARD_IA", "Tagging": "a=1&b=2",
    }  # fmt: skip
    s3.put_object(Bucket=BUCKET, Key="ü/one +%", Body=b"1", ACL="public-read", ChecksumAlgorithm="SHA256", **more)
    s3.copy_object(Bucket=BUCKET, Key="copied", CopySource={"Bucket": BUCKET, "Key": "ü/one +%"})
    assert put_parts(s3, "parts", bytes(3500), ACL="private", **more) == parts_etag(bytes(3500))
    form = s3.generate_presigned_url("put_object", {"Bucket": BUCKET, "Key": "signed"})
    with urllib.request.urlopen(urllib.request.Request(form, data=b"by anybody", method="PUT")) as answer:
        assert answer.status == 200
    s3.put_object_tagging(Bucket=BUCKET, Key="signed", Tagging={"TagSet": [{"Key": "later", "Value": "yes"}]})
    s3.put_object_acl(Bucket=BUCKET, Key="signed", ACL="public-read")

    def seen() -> list[Any]:
        said = [server.s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
        for key in ("ü/one +%", "copied", "parts", "signed"):
            of = {"Bucket": BUCKET, "Key": key}
            head = server.s3.get_object(**of, ChecksumMode="ENABLED")
            body = head.pop("Body").read()
            head.pop("ResponseMetadata")
            tags, grants = server.s3.get_object_tagging(**of)["TagSet"], server.s3.get_object_acl(**of)["Grants"]
            said.append([head, body, tags, grants])
        return said

    before = seen()
    server.again()
    assert seen() == before
    assert before[3][0]["ETag"] == parts_etag(bytes(3500)) and before[1][0]["Metadata"] == {"colour": "blue"}
    assert before[4][2] == [{"Key": "later", "Value": "yes"}]


def test_versions_and_markers_are_restored_in_order(server: Server) -> None:
    s3 = server.s3
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    ids = [s3.put_object(Bucket=BUCKET, Key="key", Body=str(n).encode())["VersionId"] for n in range(4)]
    s3.delete_object(Bucket=BUCKET, Key="key", VersionId=ids[1])
    s3.delete_object(Bucket=BUCKET, Key="key")

    def seen() -> list[Any]:
        answer = server.s3.list_object_versions(Bucket=BUCKET)
        return [answer["Versions"], answer["DeleteMarkers"]]

    before = seen()
    server.again()
    assert seen() == before
    s3 = server.s3
    assert read(s3, "key") is None
    assert [read(s3, "key", VersionId=ids[n]) for n in (0, 2, 3)] == [b"0", b"2", b"3"]
    with pytest.raises(ClientError, match="NoSuchVersion"):
        s3.get_object(Bucket=BUCKET, Key="key", VersionId=ids[1])
    # The marker is taken away, and the newest version is the object again: after one more kill too.
    s3.delete_object(Bucket=BUCKET, Key="key", VersionId=before[1][0]["VersionId"])
    server.again()
    assert read(server.s3, "key") == b"3"


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
    server.again()
    assert len(server.s3.list_object_versions(Bucket=BUCKET)["Versions"]) == 80


def test_buckets_are_restored_unless_deleted(server: Server) -> None:
    s3, of = server.s3, {"Bucket": BUCKET}
    rule = {"ID": "r", "Status": "Enabled", "Filter": {"Prefix": "p"}, "Expiration": {"Days": 3}}
    s3.put_bucket_tagging(**of, Tagging={"TagSet": [{"Key": "a", "Value": "1"}]})
    s3.put_bucket_lifecycle_configuration(**of, LifecycleConfiguration={"Rules": [rule]})
    s3.put_bucket_policy(**of, Policy='{"Version": "2012-10-17", "Statement": []}')
    s3.create_bucket(Bucket="gone")
    s3.put_object(Bucket="gone", Key="key", Body=b"")
    s3.delete_object(Bucket="gone", Key="key")
    s3.delete_bucket(Bucket="gone")
    buckets = s3.list_buckets()["Buckets"]
    server.again()
    s3 = server.s3
    assert s3.list_buckets()["Buckets"] == buckets and [b["Name"] for b in buckets] == [BUCKET]
    assert s3.get_bucket_tagging(**of)["TagSet"] == [{"Key": "a", "Value": "1"}]
    assert s3.get_bucket_lifecycle_configuration(**of)["Rules"] == [rule]
    assert s3.get_bucket_policy(**of)["Policy"].startswith("{")


def test_accounts_are_separate_after_a_restart(server: Server) -> None:
    def names(account: str) -> str:
        request = urllib.request.Request(server.url, headers={"x-moto-account-id": account})
        with urllib.request.urlopen(request) as answer:
            return str(answer.read().decode())

    request = urllib.request.Request(
        f"{server.url}/theirs", method="PUT", headers={"x-moto-account-id": "111111111111"}
    )
    urllib.request.urlopen(request).close()
    for _ in range(2):
        assert "theirs" in names("111111111111") and "kept" not in names("111111111111")
        assert "kept" in names("123456789012")
        server.again()


def test_a_damaged_file_is_an_error_response(server: Server) -> None:
    server.s3.put_object(Bucket=BUCKET, Key="key", Body=b"x" * 999)
    server.kill()
    server.blob_of(999).write_bytes(b"y" * 999)
    server.start()
    with pytest.raises(ClientError) as caught:
        server.s3.get_object(Bucket=BUCKET, Key="key")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert caught.value.response["Error"]["Code"] == "InternalError"
    server.s3.put_object(Bucket=BUCKET, Key="key", Body=b"new")
    assert read(server.s3, "key") == b"new"


def test_an_aborted_upload_stores_nothing_and_blocks_nobody(server: Server) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as half:
        half.sendall(f"PUT /{BUCKET}/key HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf".encode())
        server.s3.put_object(Bucket=BUCKET, Key="key", Body=b"whole")
        server.s3.create_bucket(Bucket="another")
    assert read(server.s3, "key") == b"whole"


def test_acknowledged_log_lines_survive_kill_9(server: Server) -> None:
    logs = server.client("logs")
    logs.create_log_group(logGroupName=GROUP)
    said: dict[str, int] = {f"stream-{number}": 0 for number in range(4)}

    def write(client: Any, name: str) -> None:
        with contextlib.suppress(BotoCoreError, ClientError):
            while True:
                lines = [f"{said[name] + i}" for i in range(50)]
                events = [{"timestamp": int(time.time() * 1000), "message": line} for line in lines]
                client.put_log_events(logGroupName=GROUP, logStreamName=name, logEvents=events)
                said[name] += 50

    for turn in range(3):
        for name in said if turn == 0 else ():
            logs.create_log_stream(logGroupName=GROUP, logStreamName=name)
        threads = [threading.Thread(target=write, args=(server.client("logs"), name)) for name in said]
        for thread in threads:
            thread.start()
        while min(said.values()) < 500 * (turn + 1):
            assert any(thread.is_alive() for thread in threads)
            time.sleep(0.01)
        server.kill()
        for thread in threads:
            thread.join(PATIENCE_S)
        server.start()
        logs = server.client("logs")
        for name, count in said.items():
            found = [event["message"] for event in followed(logs, name)]
            # All that was acknowledged; of the batch that was on its way, all or nothing.
            assert found == [str(number) for number in range(len(found))]
            assert len(found) in (count, count + 50)
            said[name] = len(found)


def followed(logs: Any, name: str) -> Iterator[dict[str, Any]]:
    """Yield the events as the provider's AwsLogsHook does: until it gets back the token that it gave."""
    token: dict[str, str] = {}
    while True:
        answer = logs.get_log_events(logGroupName=GROUP, logStreamName=name, startFromHead=True, **token)
        yield from answer["events"]
        if answer["nextForwardToken"] == token.get("nextToken"):
            return
        token = {"nextToken": answer["nextForwardToken"]}
