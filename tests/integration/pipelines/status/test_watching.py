"""Test when `status --watch` writes the documents again, and that a kill leaves whole files."""

import datetime as dt
import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pipelines.errors import DataError, ServiceError
from pipelines.lake.cached import CachedLake, read_table_locations
from pipelines.registry.lifecycle import Event, Journal, Kind
from pipelines.status import watching
from pipelines.status.documents.costs import CostDocument
from pipelines.status.documents.data import DatasetDetails
from pipelines.status.documents.model import ModelDetails
from pipelines.status.documents.models import ModelList
from pipelines.status.watching import Watcher
from pipelines.status.writing import write_documents
from tests.conftest import Commands

KINDS: dict[str, type[BaseModel]] = {"models.json": ModelList, "costs.json": CostDocument, "flights.json": ModelDetails}


@pytest.fixture(autouse=True)
def request_file(home: Path) -> Path:
    """Record that somebody looks at the page; return the file."""
    file = home / "status" / watching.LAST_REQUEST_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return file


def add_event(version: str) -> None:
    """Add a change of the champion."""
    event = Event.create(Kind.PROMOTED, "flights", version, champions=("", version), key=version)
    Journal.open().append_event("flights", lambda _: event)


def read_champion(home: Path) -> str:
    """Return the champion in the list of models; empty if there is no list."""
    path = home / "status" / "models.json"
    models = ModelList.model_validate_json(path.read_text()).models if path.exists() else []
    return models[0].champion if models else ""


def test_documents_are_written_again_only_after_a_change(
    home: Path, monkeypatch: pytest.MonkeyPatch, one_model_project: Path, tmp_path: Path
) -> None:
    add_event("1")
    watcher = Watcher()
    assert [watcher.check(), watcher.check(), watcher.check()] == [True, False, False]
    assert read_champion(home) == "1"
    add_event("2")
    assert [watcher.check(), watcher.check()] == [True, False]
    assert read_champion(home) == "2"
    params = one_model_project / "params.yaml"
    params.touch()
    assert [watcher.check(), watcher.check()] == [True, False]

    class Tomorrow(dt.datetime):
        """The clock of tomorrow."""

        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return dt.datetime.now(tz) + dt.timedelta(1)

    monkeypatch.setattr(watching, "dt", type("clock", (), {"datetime": Tomorrow, "UTC": dt.UTC}))
    assert [watcher.check(), watcher.check()] == [True, False]


@pytest.mark.usefixtures("one_model_project")
def test_changes_are_not_written_while_the_page_requests_nothing(home: Path, request_file: Path) -> None:
    watched_file = home / "status" / watching.LAST_CHECK_FILE
    request_file.unlink()
    add_event("1")
    watcher = Watcher()
    assert [watcher.check(), watcher.check()] == [True, False], "the first check writes the documents"
    add_event("2")
    long_ago = time.time() - 2 * watching.VISIT_S
    request_file.touch()
    for file in (request_file, watched_file):
        os.utime(file, (long_ago, long_ago))
    assert not watcher.check()
    assert read_champion(home) == "1"
    assert watched_file.stat().st_mtime > long_ago, "but the lake was checked"
    request_file.touch()
    assert watcher.check()
    assert read_champion(home) == "2"


def test_what_could_not_be_written_is_logged_once_and_tried_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def write(lake: CachedLake) -> dict[str, Any]:
        calls.append(lake)
        return {"models/a.json": DataError("it is damaged.")} if len(calls) < 3 else {}

    watcher = Watcher(write)
    assert [watcher.check(), watcher.check()] == [True, False], "the next attempt comes after a while"
    monkeypatch.setattr(watching, "RETRY_S", 0.0)
    watcher._retry_at = 0.0
    assert [watcher.check(), watcher.check(), watcher.check()] == [True, True, False]
    assert caplog.text.count("status: models/a.json cannot be written: it is damaged.") == 1


def test_full_disk_is_logged_once_and_tried_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: CachedLake) -> dict[str, Any]:
        raise OSError(errno.ENOSPC, "No space left on device")

    watcher = Watcher(fail)
    assert [watcher.check(), watcher.check()] == [True, False], "the next attempt comes after a while"
    watcher._retry_at = 0.0
    assert watcher.check()
    assert caplog.text.count("status: the documents cannot be written: ") == 1


def test_lake_that_does_not_answer_is_logged_once(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    add_event("1")
    watcher = Watcher()

    def fail(_: Any) -> Any:
        raise ServiceError("the lake's catalog does not answer.")

    monkeypatch.setattr(watching, "read_table_locations", fail)
    assert [watcher.check(), watcher.check()] == [False, False]
    assert caplog.text.count("the lake's catalog does not answer") == 1
    monkeypatch.setattr(watching, "read_table_locations", read_table_locations)
    assert watcher.check()
    assert read_champion(home) == "1"
    monkeypatch.setattr(watching, "read_table_locations", fail)
    assert not watcher.check()
    assert caplog.text.count("the lake's catalog does not answer") == 2, "a new outage is logged"
    monkeypatch.setattr(watching, "read_table_locations", read_table_locations)
    assert not watcher.check(), "nothing has changed"
    monkeypatch.setattr(watching, "read_table_locations", fail)
    assert not watcher.check()
    assert caplog.text.count("the lake's catalog does not answer") == 3, "an outage after a check without a write, too"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_watch_follows_the_lake_until_a_signal(
    home: Path, commands: Commands, until: Callable[..., Any], number: signal.Signals
) -> None:
    add_event("1")
    process = commands.start(sys.executable, "-m", "pipelines", "status", "--watch", "--interval", "0.1")
    until(lambda: read_champion(home) == "1")
    add_event("2")
    until(lambda: read_champion(home) == "2")
    process.send_signal(number)
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert "status: 1 models, 1 datasets, written in" in errors


KILLED = """
import sys, time
from pathlib import Path
from pipelines.lake.cached import CachedLake
from pipelines.status.writing import write_documents
write_text, count = Path.write_text, 0

def write_half(path, text, **options):
    global count
    count += 1
    if count == int(sys.argv[1]):
        write_text(path, text[: len(text) // 2], **options)
        print("half", flush=True)
        time.sleep(600)
    return write_text(path, text, **options)

Path.write_text = write_half
write_documents(CachedLake.open())
"""
"""Writes the documents, and stops in the middle of the file whose number is given."""


@pytest.mark.parametrize("file", [1, *(pytest.param(file, marks=pytest.mark.soak) for file in (2, 3, 4))])
def test_files_stay_whole_if_the_writer_is_killed(home: Path, commands: Commands, file: int) -> None:
    add_event("1")
    write_documents(CachedLake.open())
    add_event("2")
    process = commands.start(sys.executable, "-c", KILLED, str(file))
    assert process.stdout and process.stdout.readline() == "half\n"
    process.kill()
    process.wait(60)
    folder, champions = home / "status", []
    for path in folder.rglob("*.json"):
        kind = DatasetDetails if path.parent.name == "data" else KINDS[path.name]
        document = kind.model_validate_json(path.read_text())
        if isinstance(document, ModelList | ModelDetails):
            summary = document.summary if isinstance(document, ModelDetails) else document.models[0]
            champions.append(summary.champion)
    assert sorted(champions) == (["1", "1"] if file == 1 else ["1", "2"]), "the list of models is written last"
    (leftover,) = folder.rglob(".*.json.*")
    os.utime(leftover, (0, 0))
    write_documents(CachedLake.open())
    assert not leftover.exists()
    assert read_champion(home) == "2"
