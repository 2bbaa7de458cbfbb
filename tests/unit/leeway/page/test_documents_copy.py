"""Test that the documents of the page reach an API server by S3, from a command that writes them elsewhere."""

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from leeway.page import documents, documents_copy
from leeway.page.documents_copy import DocumentsCopy, unpack
from leeway.page.errors import MissingDocumentError
from moto import mock_aws

from pipelines.errors import SpecError
from pipelines.status.documents_copy import upload_documents
from tests.tools.page_documents import write_document

URI = "s3://leeway/leeway/status/documents.zip"
UseHome = Callable[[str], Path]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a client of an S3 that has the bucket."""
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "moto-takes-any")
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="leeway")
        yield client


@pytest.fixture
def use_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> UseHome:
    """Return the function that sets LEEWAY_HOME to that of the workers, or of the API server; it returns the folder."""
    monkeypatch.setenv("LEEWAY_STATUS_COPY", URI)
    monkeypatch.setattr(documents_copy, "CHECK_S", 0.0)

    def use(name: str) -> Path:
        monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / name))
        fresh_settings()
        return tmp_path / name / "status"

    return use


def write_documents(folder: Path, *models: str) -> None:
    """Write the documents of models, as `status --write` does."""
    summaries = [{"model": model} for model in models]
    for summary in summaries:
        write_document(folder, f"models/{summary['model']}.json", summary=summary)
    write_document(folder, "models.json", models=summaries)


def refresh(copy: DocumentsCopy) -> None:
    """Refresh the copy, and wait until it is read."""
    copy.refresh()
    copy.wait_for_check(60)


def list_models() -> list[str]:
    """Return the names of the models that the page lists."""
    return [model["model"] for model in documents.read_models(set)["models"]]


def test_documents_written_by_a_worker_are_shown_by_the_api_server(s3: Any, use_home: UseHome) -> None:
    workers_folder = use_home("worker")
    write_documents(workers_folder, "boats", "cars")
    (workers_folder / "models" / ".boats.json.x").write_text("of another writer")
    upload_documents(URI)
    servers_folder, copy = use_home("server"), DocumentsCopy()
    with pytest.raises(MissingDocumentError, match="On MWAA, unpause page_documents"):
        list_models()
    copy.refresh()
    assert list_models() == ["boats", "cars"] and documents.read_model("cars")["summary"]["model"] == "cars"
    written_at = s3.head_object(Bucket="leeway", Key="leeway/status/documents.zip")["LastModified"]
    assert documents.find_last_check_time() == written_at
    # A copy that has not changed is not unpacked again; the next one replaces all documents.
    (servers_folder / "models.json").touch()
    before = (servers_folder / "models.json").stat().st_ino
    refresh(copy)
    assert (servers_folder / "models.json").stat().st_ino == before
    use_home("worker")
    (workers_folder / "models" / "cars.json").unlink()
    write_documents(workers_folder, "boats")
    upload_documents(URI)
    use_home("server")
    refresh(copy)
    assert list_models() == ["boats"]
    with pytest.raises(MissingDocumentError, match="there is no model cars"):
        documents.read_model("cars")


def test_page_keeps_its_documents_while_s3_does_not_answer_and_says_so_once(
    s3: Any, use_home: UseHome, caplog: pytest.LogCaptureFixture
) -> None:
    write_documents(use_home("server"), "boats")
    copy = DocumentsCopy()
    for _ in range(2):
        refresh(copy)
    assert list_models() == ["boats"]
    (warning,) = caplog.messages
    assert "the page shows older documents" in warning and "NoSuchKey" in warning


def test_s3_is_asked_only_now_and_then_and_only_if_there_is_a_copy(
    s3: Any, use_home: UseHome, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    use_home("server")
    requests: list[str] = []
    monkeypatch.setattr(DocumentsCopy, "_fetch", lambda _, uri: requests.append(uri))
    monkeypatch.setattr(documents_copy, "CHECK_S", 1_000.0)
    copy = DocumentsCopy()
    refresh(copy)
    refresh(copy)
    assert requests == [URI]
    monkeypatch.delenv("LEEWAY_STATUS_COPY")
    fresh_settings()
    refresh(DocumentsCopy())
    assert requests == [URI]


@pytest.mark.parametrize("name", ["../models.json", "/etc/x.json", "models/../../x.json", "watched", "other/x.json"])
def test_file_that_is_no_document_is_refused_and_nothing_is_unpacked(name: str, tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("models.json", "{}")
        archive.writestr(name, "{}")
    with pytest.raises(ValueError, match="the copy of the documents has the file"):
        unpack(file.getvalue(), tmp_path)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    ("documents", "text"),
    [
        ({}, "lacks models.json"),
        ({"models/boats.json": "{}"}, "lacks models.json"),
        ({"models.json": "{}", "models/boats.json": '{"schema_ver'}, "'models/boats.json', which is not valid JSON"),
        ({"models.json": "[" * 100_000}, "'models.json', which is not valid JSON"),
    ],
)
def test_incomplete_copy_changes_nothing(documents: dict[str, str], text: str, tmp_path: Path) -> None:
    write_documents(tmp_path, "boats")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in documents.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match=text):
        unpack(file.getvalue(), tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before


def test_large_object_is_not_read(
    s3: Any, use_home: UseHome, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(documents_copy, "MAX_BYTES", 10)
    write_documents(use_home("server"), "boats")
    s3.put_object(Bucket="leeway", Key="leeway/status/documents.zip", Body=b"x" * 11)
    refresh(DocumentsCopy())
    assert "it has 11 bytes, more than 10" in caplog.text and list_models() == ["boats"]


def test_document_of_another_version_or_nested_too_deep_is_not_shown(use_home: UseHome) -> None:
    folder = use_home("server")
    write_documents(folder, "boats")
    assert list_models() == ["boats"], "the negative control"
    (folder / "models.json").write_text('{"schema_version": 2, "modelle": []}')
    with pytest.raises(MissingDocumentError, match=r"models\.json has version 2, and this page reads version 1"):
        list_models()
    (folder / "models.json").write_text("[" * 100_000)
    with pytest.raises(MissingDocumentError, match="is damaged"):
        list_models()


def test_too_large_copy_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents_copy, "MAX_BYTES", 10)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("models.json", "x" * 11)
    with pytest.raises(ValueError, match="more than 10 bytes"):
        unpack(file.getvalue(), tmp_path)


def test_missing_bucket_is_one_clear_line(s3: Any, use_home: UseHome) -> None:
    write_documents(use_home("worker"), "boats")
    with pytest.raises(SpecError, match=r"the bucket of s3://no-such-bucket/x\.zip does not exist"):
        upload_documents("s3://no-such-bucket/x.zip")
