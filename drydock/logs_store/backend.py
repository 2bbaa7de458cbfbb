"""moto's CloudWatch Logs, stored on disk: groups, streams and events survive a restart and do not fill the memory.

Subscription filters, metric filters, destinations, deliveries, resource policies and queries are moto's own, and are
kept in memory only.
"""

import json
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any

from moto.logs import urls
from moto.logs.models import LogGroup, LogsBackend, logs_backends
from moto.logs.responses import LogsResponse

from drydock import encoding
from drydock.logs_store.events import ADD_LINE_COUNT, SCHEMA
from drydock.logs_store.log_groups import StoredGroup
from drydock.moto_registry import bind_arguments
from drydock.store import Store
from drydock.transfer.line_blocks import LineBlock


class StoredLogsResponse(LogsResponse):
    """moto's HTTP responses for CloudWatch Logs. FilterLogEvents also supports logStreamNamePrefix."""

    body: str

    def filter_log_events(self) -> str:
        """Answer FilterLogEvents, with logStreamNamePrefix, which moto 5.2.5 ignores."""
        if prefix := self._get_param("logStreamNamePrefix"):
            group = self.logs_backend.groups.get(self._get_param("logGroupName"))
            names = [name for name in list(group.streams if group else ()) if name.startswith(prefix)]
            # An empty list would mean all streams. The prefix is then no stream's name, so it selects no stream.
            self.body = json.dumps({**json.loads(self.body), "logStreamNames": names or [prefix]})
        return str(super().filter_log_events())


class StoredLogs(LogsBackend):
    """The CloudWatch Logs of one account and region."""

    def __init__(self, store: Store, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self._store, self._lock = store, threading.RLock()
        statement = "SELECT id, name, record FROM log_groups WHERE account = ? AND region = ? ORDER BY id"
        for number, name, text in store.query(statement, (account_id, region_name)):
            record = encoding.loads(text)
            group = LogGroup(account_id, region_name, name)
            group.__dict__.update(record["state"])
            self.groups[name] = StoredGroup(store, number, group, self.tagger)
            super().tag_resource(group.arn, record["tags"])

    def reset(self) -> None:
        """Delete all groups, for moto's /moto-api/reset."""
        with self._lock:  # a job may be writing
            for name in list(self.groups):
                self.delete_log_group(name)
            super().__init__(self.region_name, self.account_id)

    @property
    def url_bases(self) -> list[str]:
        """The host names at which moto serves Logs."""
        return list(urls.url_bases)

    @property
    def url_paths(self) -> dict[str, Any]:
        """The paths at which moto serves Logs."""
        return {path.format(""): StoredLogsResponse.dispatch for path in urls.url_paths}

    def create_log_group(self, log_group_name: str, tags: dict[str, str], **kwargs: Any) -> LogGroup:
        """Create a group. Raises moto's exception if the group exists or its name is invalid."""
        with self._lock:
            moto_group = super().create_log_group(log_group_name, tags, **kwargs)
            del self.groups[log_group_name]
            group = StoredGroup(self._store, 0, moto_group, self.tagger)  # its number is the id of the row below
            row = group.build_row()
            with self._store.transaction() as db:
                insert = "INSERT INTO log_groups (account, region, name, record) VALUES (?, ?, ?, ?)"
                group.number = int(db.execute(insert, row).lastrowid or 0)
            self.groups[log_group_name] = group
        return group

    def ensure_log_group(self, log_group_name: str) -> None:
        """Create a group if it does not exist. Idempotent."""
        with self._lock:
            if log_group_name not in self.groups:
                self.create_log_group(log_group_name, {})

    def delete_log_group(self, log_group_name: str) -> None:
        """Delete a group with its streams. Raises moto's exception if the group does not exist."""
        with self._lock:
            group = self.groups.get(log_group_name)
            if group:
                group.delete_rows()
                self.tagger.delete_all_tags_for_resource(group.arn)
            super().delete_log_group(log_group_name)

    def create_log_stream(self, log_group_name: str, log_stream_name: str) -> None:
        """Create a stream. Raises moto's exception if the stream exists, or its group does not exist."""
        with self._lock:
            super().create_log_stream(log_group_name, log_stream_name)

    def ensure_log_stream(self, log_group_name: str, log_stream_name: str) -> None:
        """Create a stream if it does not exist. Idempotent."""
        with self._lock:
            super().ensure_log_stream(log_group_name, log_stream_name)

    def append_blocks(
        self, group: str, stream: str, blocks: Sequence[LineBlock], update: Callable[[sqlite3.Connection], object]
    ) -> None:
        """Store lines of a job's log. The group and the stream are created if they do not exist.

        Args:
            group: Name of the group.
            stream: Name of the stream.
            blocks: The lines.
            update: Makes more changes in the same transaction.

        Raises:
            sqlite3.Error: The disk is full or not writable. A retry can help.
        """
        with self._lock:
            self.ensure_log_group(group)
            self.ensure_log_stream(group, stream)
            self.groups[group].streams[stream].append_blocks(blocks, update)

    def delete_log_stream(self, log_group_name: str, log_stream_name: str) -> None:
        """Delete a stream. Raises moto's exception if the stream does not exist."""
        with self._lock:
            super().delete_log_stream(log_group_name, log_stream_name)

    def tag_resource(self, arn: str, tags: dict[str, str]) -> None:
        """Add tags to a resource; the tags of a group are stored."""
        super().tag_resource(arn, tags)
        self._save_tags(arn)

    def untag_resource(self, arn: str, tag_keys: list[str]) -> None:
        """Remove tags from a resource; the tags of a group are stored."""
        super().untag_resource(arn, tag_keys)
        self._save_tags(arn)

    def _save_tags(self, arn: str) -> None:
        for group in list(self.groups.values()):
            if group.arn == arn and isinstance(group, StoredGroup):
                group.save()


def install(store: Store) -> None:
    """Make moto's CloudWatch Logs in this process durable from now on, and restore what is stored already."""
    store.create_tables(SCHEMA)
    if not any(column[1] == "line_count" for column in store.query("PRAGMA table_info(log_events)")):
        store.create_tables(ADD_LINE_COUNT)
    logs_backends.clear()
    logs_backends.backend = bind_arguments(StoredLogs, store)
