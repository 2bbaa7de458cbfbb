"""moto's CloudWatch Logs on the disk: groups, streams and events outlive the server, and fill no memory.

Subscription filters, metric filters, destinations, deliveries, resource policies and queries are moto's, and kept in
memory only.
"""

import json
import threading
from typing import Any

from moto.logs import urls
from moto.logs.models import LogGroup, LogsBackend, logs_backends
from moto.logs.responses import LogsResponse

from drydock import encoding
from drydock.logs_store.events import SCHEMA
from drydock.logs_store.log_groups import StoredGroup
from drydock.moto_registry import bound
from drydock.store import Store


class StoredLogsResponse(LogsResponse):
    """The HTTP face: moto's, and what it leaves out."""

    body: str

    def filter_log_events(self) -> str:
        """Answer FilterLogEvents; moto 5.2.5 does not look at logStreamNamePrefix."""
        if prefix := self._get_param("logStreamNamePrefix"):
            group = self.logs_backend.groups.get(self._get_param("logGroupName"))
            names = [name for name in list(group.streams if group else ()) if name.startswith(prefix)]
            # No name would mean all of them.
            self.body = json.dumps({**json.loads(self.body), "logStreamNames": names or [prefix]})
        return str(super().filter_log_events())


class StoredLogs(LogsBackend):
    """The CloudWatch Logs of one account and region."""

    def __init__(self, store: Store, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self._store, self._changing = store, threading.RLock()
        statement = "SELECT id, name, record FROM log_groups WHERE account = ? AND region = ? ORDER BY id"
        for number, name, text in store.read(statement, (account_id, region_name)):
            record = encoding.loads(text)
            plain = LogGroup(account_id, region_name, name)
            plain.__dict__.update(record["state"])
            self.groups[name] = StoredGroup(store, number, plain)
            super().tag_resource(plain.arn, record["tags"])

    def reset(self) -> None:
        """There is no group (moto's /moto-api/reset)."""
        with self._changing:  # a job may be writing
            for name in list(self.groups):
                self.delete_log_group(name)
            super().__init__(self.region_name, self.account_id)

    @property
    def url_bases(self) -> list[str]:
        """The hosts that moto serves Logs under."""
        return list(urls.url_bases)

    @property
    def url_paths(self) -> dict[str, Any]:
        """The paths that moto serves Logs under."""
        return {path.format(""): StoredLogsResponse.dispatch for path in urls.url_paths}

    def create_log_group(self, log_group_name: str, tags: dict[str, str], **kwargs: Any) -> LogGroup:
        """There is such a group; moto says why where there cannot be."""
        with self._changing:
            plain = super().create_log_group(log_group_name, tags, **kwargs)
            del self.groups[log_group_name]
            group = StoredGroup(self._store, 0, plain)
            row = group.row
            with self._store.write() as db:
                insert = "INSERT INTO log_groups (account, region, name, record) VALUES (?, ?, ?, ?)"
                group.number = int(db.execute(insert, row).lastrowid or 0)
            self.groups[log_group_name] = group
        return group

    def ensure_log_group(self, log_group_name: str) -> None:
        """There is such a group. Idempotent."""
        with self._changing:
            if log_group_name not in self.groups:
                self.create_log_group(log_group_name, {})

    def delete_log_group(self, log_group_name: str) -> None:
        """There is no such group; moto says so where there was none."""
        with self._changing:
            group = self.groups.get(log_group_name)
            if group:
                group.delete_rows()
                self.tagger.delete_all_tags_for_resource(group.arn)
            super().delete_log_group(log_group_name)

    def create_log_stream(self, log_group_name: str, log_stream_name: str) -> None:
        """There is such a stream; moto says why where there cannot be."""
        with self._changing:
            super().create_log_stream(log_group_name, log_stream_name)

    def ensure_log_stream(self, log_group_name: str, log_stream_name: str) -> None:
        """There is such a stream. Idempotent."""
        with self._changing:
            super().ensure_log_stream(log_group_name, log_stream_name)

    def delete_log_stream(self, log_group_name: str, log_stream_name: str) -> None:
        """There is no such stream; moto says so where there was none."""
        with self._changing:
            super().delete_log_stream(log_group_name, log_stream_name)

    def tag_resource(self, arn: str, tags: dict[str, str]) -> None:
        """The resource has these tags too; a group's are kept."""
        super().tag_resource(arn, tags)
        self._save_tags(arn)

    def untag_resource(self, arn: str, tag_keys: list[str]) -> None:
        """The resource has no such tags; a group's are kept."""
        super().untag_resource(arn, tag_keys)
        self._save_tags(arn)

    def _save_tags(self, arn: str) -> None:
        for group in list(self.groups.values()):
            if group.arn == arn and isinstance(group, StoredGroup):
                group.save()


def install(store: Store) -> None:
    """From now on moto's CloudWatch Logs, in this process, is kept in the store; what is there is moto's again."""
    store.ensure(SCHEMA)
    logs_backends.clear()
    logs_backends.backend = bound(StoredLogs, store)
