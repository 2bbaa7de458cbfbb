"""Test log events on the disk: their pages, tokens and order."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.core.base_backend import backend_lock
from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.models import LogsBackend, logs_backends

from drydock.logs_store import backend as streams
from drydock.logs_store import events
from drydock.store import Store
from drydock.transfer.line_blocks import build_blocks

ACCOUNT, REGION, GROUP = "123456789012", "us-east-1", "group"
NOW_MS = int(time.time() * 1000)


class Disk:
    """A data folder, and moto's Logs on it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "store.sqlite"
        self.restart()

    def restart(self) -> None:
        """Load the folder as a server does at its start."""
        self.store = Store(self.path)
        streams.install(self.store)

    @property
    def backend(self) -> Any:
        """The backend of the account and region."""
        return logs_backends[ACCOUNT][REGION]

    def put(self, name: str, *texts: str, at: int = 0) -> None:
        """Write events to a stream, `at` milliseconds after NOW_MS."""
        self.backend.ensure_log_group(GROUP)
        self.backend.ensure_log_stream(GROUP, name)
        self.backend.put_log_events(GROUP, name, [{"timestamp": NOW_MS + at, "message": text} for text in texts])

    def get(
        self, name: str, token: str | None = None, *, head: bool = True, **fields: Any
    ) -> tuple[list[str], str, str]:
        """Return the messages of a page, and its backward and forward tokens."""
        query = {"start_time": None, "end_time": None, "limit": None, **fields}
        page = self.backend.get_log_events(GROUP, "", name, next_token=token, start_from_head=head, **query)
        events, backward, forward = page
        return [event["message"] for event in events], backward, forward

    def find(
        self, names: tuple[str, ...] = (), token: str | None = None, **fields: Any
    ) -> tuple[list[str], str | None]:
        """Return the messages of a page of FilterLogEvents, and its token."""
        query = {"start_time": None, "end_time": None, "limit": None, "filter_pattern": "", **fields}
        page = self.backend.filter_log_events(GROUP, list(names), next_token=token, interleaved=False, **query)
        events, token, _ = page
        return [event["message"] for event in events], token


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Return an empty data folder."""
    yield Disk(tmp_path)
    logs_backends.clear()
    logs_backends.backend = LogsBackend


def test_lock_of_moto_is_never_taken_inside_a_transaction(
    disk: Disk, watch_lock: Callable[[Store], list[bool]]
) -> None:
    lock_uses = watch_lock(disk.store)
    disk.put("s", "a")
    arn = disk.backend.groups[GROUP].arn
    disk.backend.put_retention_policy(GROUP, "7")
    disk.backend.tag_resource(arn, {"team": "a"})
    disk.backend.untag_resource(arn, ["team"])
    disk.backend.delete_log_stream(GROUP, "s")
    disk.backend.delete_log_group(GROUP)
    assert lock_uses and not any(lock_uses)


def test_groups_are_created_and_changed_while_moto_resets(disk: Disk) -> None:
    """A reset holds moto's lock while it waits for the lock of the groups: who holds the latter must not wait."""
    backend = disk.backend

    def change_groups() -> None:
        backend.append_blocks(GROUP, "s", build_blocks(b"line\n", NOW_MS), lambda _: None)
        backend.put_retention_policy(GROUP, "7")
        backend.delete_log_group(GROUP)

    with backend_lock:
        thread = threading.Thread(target=change_groups, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
    assert not backend.groups


def test_reader_reads_page_by_page_to_the_end(disk: Disk) -> None:
    disk.put("s", *"abcde")
    messages: list[str] = []
    page, _, token = disk.get("s", limit=2)
    while page:
        messages += page
        page, _, token = disk.get("s", token, limit=2)
    assert messages == list("abcde")
    assert disk.get("s", token)[2] == token  # by the same token, boto3's readers know that this is the end
    disk.put("s", "f")
    assert disk.get("s", token)[0] == ["f"]


def test_reader_from_the_end_gets_the_last_page_first(disk: Disk) -> None:
    disk.put("s", *"abcde")
    page, backward, _ = disk.get("s", head=False, limit=2)
    assert page == ["d", "e"]
    page, backward, _ = disk.get("s", backward, limit=2)
    assert page == ["b", "c"]
    page, backward, _ = disk.get("s", backward, limit=2)
    assert page == ["a"]
    assert disk.get("s", backward)[:2] == ([], backward)


@pytest.mark.parametrize("head", [True, False])
def test_reader_of_an_empty_stream_gets_its_first_event(disk: Disk, head: bool) -> None:
    disk.put("s")
    page, _, token = disk.get("s", head=head)
    assert page == []
    disk.put("s", "first")
    assert disk.get("s", token)[0] == ["first"]


def test_events_are_in_the_order_of_their_timestamps(disk: Disk) -> None:
    disk.put("s", "late", at=5)
    disk.put("s", "early", "early too")
    assert disk.get("s")[0] == ["early", "early too", "late"]
    assert disk.get("s", start_time=NOW_MS + 1)[0] == ["late"]
    assert disk.get("s", end_time=NOW_MS + 4)[0] == ["early", "early too"]
    assert disk.get("s", head=False, end_time=NOW_MS + 4, limit=1)[0] == ["early too"]


@pytest.mark.parametrize("token", ["", "f/1", "x/" + "0" * 56, "f/" + "z" * 56])
def test_invalid_token_is_refused(disk: Disk, token: str) -> None:
    disk.put("s", "a")
    with pytest.raises(InvalidParameterException):
        disk.get("s", token)


def test_page_has_at_most_one_mebibyte(disk: Disk) -> None:
    disk.put("s", *["x" * 300_000] * 8)
    page, _, token = disk.get("s")
    assert len(page) == 3
    assert len(disk.get("s", token)[0]) == 3
    disk.put("t", "y" * (2 * events.PAGE_BYTES))
    assert len(disk.get("t")[0]) == 1


def test_streams_are_searched_together(disk: Disk) -> None:
    disk.put("s", "error one", "fine", at=1)
    disk.put("t", "error two", at=2)
    disk.put("s", "error three", at=3)
    assert disk.find(filter_pattern="error")[0] == ["error one", "error two", "error three"]
    assert disk.find(("t",), filter_pattern="error") == (["error two"], None)
    page, token = disk.find(filter_pattern="error", limit=2)
    assert page == ["error one", "error two"] and token
    assert disk.find(filter_pattern="error", limit=2, token=token) == (["error three"], None)
    assert disk.find(filter_pattern="absent") == ([], None)


def test_groups_streams_and_events_survive_a_restart(disk: Disk) -> None:
    disk.backend.create_log_group(GROUP, {"team": "a"})
    disk.backend.put_retention_policy(GROUP, 7)
    disk.put("s", "one", "\ud800")
    disk.put("deleted", "text")
    disk.backend.delete_log_stream(GROUP, "deleted")
    group = disk.backend.groups[GROUP]
    before = group.to_describe_dict(), group.streams["s"].to_describe_dict()
    disk.restart()
    group = disk.backend.groups[GROUP]
    assert (group.to_describe_dict(), group.streams["s"].to_describe_dict()) == before
    assert disk.backend.list_tags_for_resource(group.arn) == {"team": "a"}
    assert disk.get("s")[0] == ["one", "?"] and list(group.streams) == ["s"]
    disk.backend.delete_log_group(GROUP)
    disk.restart()
    assert disk.backend.groups == {}
    assert disk.store.query("SELECT count(*) FROM log_events") == [(0,)]


def test_batch_is_stored_completely_or_not_at_all(disk: Disk) -> None:
    disk.put("s", "before")
    with disk.store.transaction() as db:
        db.execute("PRAGMA max_page_count = 1")
    with pytest.raises(sqlite3.OperationalError):
        disk.put("s", *["x" * 10_000] * 100)
    assert disk.get("s")[0] == ["before"]
    assert disk.backend.groups[GROUP].streams["s"].stored_bytes == len("before")


def test_deleted_stream_accepts_no_events(disk: Disk) -> None:
    disk.put("s", "a")
    stream = disk.backend.groups[GROUP].streams["s"]
    disk.backend.delete_log_stream(GROUP, "s")
    with pytest.raises(ResourceNotFoundException):
        stream.put_log_events([{"timestamp": NOW_MS, "message": "late"}])
    assert disk.store.query("SELECT count(*) FROM log_events") == [(0,)]


def append_lines(disk: Disk, name: str, timestamp: int, *lines: str) -> None:
    """Write lines as a job's log does."""
    blocks = build_blocks("".join(f"{line}\n" for line in lines).encode(), timestamp)
    disk.backend.append_blocks(GROUP, name, blocks, lambda _: None)


def test_subscription_that_accepts_no_events_does_not_fail_their_writer(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    """Their writer would send them again, and they are stored already."""
    for group in (GROUP, "destination"):
        disk.backend.create_log_group(group, {})
    disk.backend.put_subscription_filter(GROUP, "copy", "", disk.backend.groups["destination"].arn, "")
    disk.backend.delete_log_group("destination")
    append_lines(disk, "s", NOW_MS, "line")
    disk.put("s", "event")
    assert disk.get("s")[0] == ["line", "event"]
    assert caplog.text.count("subscription copy") == 2


def test_several_jobs_write_into_one_group_concurrently(disk: Disk) -> None:
    def write_lines(name: str) -> None:
        for number in range(20):
            append_lines(disk, name, NOW_MS, f"{number} a", f"{number} b")

    threads = [threading.Thread(target=write_lines, args=(f"job-{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [f"{number} {text}" for number in range(20) for text in ("a", "b")]
    assert [disk.get(f"job-{number}")[0] for number in range(8)] == [expected] * 8


def test_clock_that_is_set_back_does_not_reorder_lines(disk: Disk) -> None:
    append_lines(disk, "s", NOW_MS, "one")
    token = disk.get("s")[2]
    append_lines(disk, "s", NOW_MS - 60_000, "two")
    assert disk.get("s", token)[0] == ["two"]


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
@pytest.mark.parametrize("start_from_head", [True, False])
def test_lines_of_blocks_are_read_in_pages_like_events(disk: Disk, limit: int, start_from_head: bool) -> None:
    append_lines(disk, "s", NOW_MS, "a", "b", "c", "d")
    disk.put("s", "an event\nof two lines")
    append_lines(disk, "s", NOW_MS + 5_000, "e", "f", "g")
    append_lines(disk, "other", NOW_MS, "of another stream")
    everything = ["a", "b", "c", "d", "an event\nof two lines", "e", "f", "g"]
    pages, token = [], None
    stream = disk.backend.groups[GROUP].streams["s"]
    while True:
        entries, backward, forward = stream.get_log_events(None, None, limit, token, start_from_head)
        messages = [entry["message"] for entry in entries]
        if not messages:
            break
        pages = [*pages, *messages] if start_from_head else [*messages, *pages]
        token = forward if start_from_head else backward
    assert pages == everything
    assert stream.stored_bytes == len("a b c d") + len("an event\nof two lines") + len("e f g")


def test_lines_of_blocks_are_selected_by_time_and_pattern(disk: Disk) -> None:
    append_lines(disk, "s", NOW_MS, "one", "two")
    append_lines(disk, "s", NOW_MS + 1_000, "three", "two again")
    stream = disk.backend.groups[GROUP].streams["s"]

    def select(since: int | None, until: int | None, is_forward: bool = True) -> list[str]:
        return [entry["message"] for entry in stream.get_log_events(since, until, None, None, is_forward)[0]]

    assert select(NOW_MS + 1, None) == select(NOW_MS + 1_000, None, is_forward=False) == ["three", "two again"]
    assert select(None, NOW_MS) == select(None, NOW_MS + 999, is_forward=False) == ["one", "two"]
    found = disk.backend.groups[GROUP].filter_log_events(GROUP, [], None, None, 1, None, "two", True)
    assert [event["message"] for event in found[0]] == ["two"]
    found = disk.backend.groups[GROUP].filter_log_events(GROUP, [], None, None, 9, found[1], "two", True)
    assert [event["message"] for event in found[0]] == ["two again"] and found[1] is None


def test_block_is_stored_completely_or_not_at_all(disk: Disk) -> None:
    def fail(_: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk is full")

    with pytest.raises(sqlite3.OperationalError):
        disk.backend.append_blocks(GROUP, "s", build_blocks(b"line", NOW_MS), fail)
    assert disk.get("s")[0] == []


def test_data_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "old.sqlite")
    old_schema = events.SCHEMA.replace(", line_count INTEGER NOT NULL DEFAULT 0", "")
    assert old_schema != events.SCHEMA
    store.create_tables(old_schema)
    store.create_tables("INSERT INTO log_events VALUES (1, 1, 7, 7, 'old')")
    streams.install(store)
    assert [event.message for event in events.Events(store, 1).read_after(events.START)] == ["old"]
    streams.install(store)
    logs_backends.clear()
