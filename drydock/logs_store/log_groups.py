"""One group of CloudWatch Logs, its settings and its streams in the store."""

import heapq
from typing import Any

from moto.core.utils import utcnow
from moto.logs.exceptions import ResourceAlreadyExistsException, ResourceNotFoundException
from moto.logs.models import LogGroup, logs_backends

from drydock import encoding
from drydock.logs_store.events import START, Event, page
from drydock.logs_store.log_streams import StoredStream, read_token, token
from drydock.store import Store

_STREAMS = """
SELECT id, name, created, first, last, ingested, bytes, batches FROM log_streams WHERE log_group = ? ORDER BY id
"""
_NEW_STREAM = """
INSERT INTO log_streams (log_group, name, created) VALUES (?, ?, ?)
RETURNING id, name, created, first, last, ingested, bytes, batches
"""
_DELETE_EVENTS = "DELETE FROM log_events WHERE stream IN (SELECT id FROM log_streams WHERE log_group = ?)"


class StoredGroup(LogGroup):
    """A group whose streams are in the store.

    Args:
        store: Where they are.
        number: The group's row.
        plain: The group as moto makes it.
    """

    def __init__(self, store: Store, number: int, plain: LogGroup) -> None:
        self.__dict__.update(vars(plain))
        self.store, self.number = store, number
        self.streams = {row[1]: StoredStream(self.store, self, row) for row in store.read(_STREAMS, (number,))}

    @property
    def row(self) -> tuple[str, str, str, str]:
        """What the store knows of it, its number apart. Not to be asked for under the store's lock.

        moto's registry has a lock of its own, and the backend that is made under that one reads the store.
        """
        tags = logs_backends[self.account_id][self.region].tagger.get_tag_dict_for_resource(self.arn)
        kept = ("creation_time", "retention_in_days", "kms_key_id")
        record = {"state": {name: getattr(self, name) for name in kept}, "tags": tags}
        return self.account_id, self.region, self.name, encoding.dumps(record)

    def save(self) -> None:
        """Its settings and tags are in the store."""
        *_, record = self.row
        with self.store.write() as db:
            db.execute("UPDATE log_groups SET record = ? WHERE id = ?", (record, self.number))

    def create_log_stream(self, log_stream_name: str) -> None:
        """There is such a stream.

        Raises:
            ResourceAlreadyExistsException: There was.
        """
        if log_stream_name in self.streams:
            raise ResourceAlreadyExistsException()
        values = (self.number, log_stream_name, utcnow().isoformat())
        with self.store.write() as db:
            row = db.execute(_NEW_STREAM, values).fetchone()
        self.streams[log_stream_name] = StoredStream(self.store, self, row)

    def delete_log_stream(self, log_stream_name: str) -> None:
        """There is no such stream any more.

        Raises:
            ResourceNotFoundException: There was none.
        """
        stream = self.streams.get(log_stream_name)
        if stream is None:
            raise ResourceNotFoundException()
        with self.store.write() as db:
            db.execute("DELETE FROM log_events WHERE stream = ?", (stream.number,))
            db.execute("DELETE FROM log_streams WHERE id = ?", (stream.number,))
        self.streams.pop(log_stream_name, None)

    def delete_rows(self) -> None:
        """Nothing of it is in the store."""
        with self.store.write() as db:
            db.execute(_DELETE_EVENTS, (self.number,))
            db.execute("DELETE FROM log_streams WHERE log_group = ?", (self.number,))
            db.execute("DELETE FROM log_groups WHERE id = ?", (self.number,))

    def set_retention_policy(self, retention_in_days: str | None) -> None:
        """Events are said to be kept for so long; none is deleted."""
        super().set_retention_policy(retention_in_days)
        self.save()

    def filter_log_events(
        self,
        log_group_name: str,
        log_stream_names: list[str],
        start_time: int | None,
        end_time: int | None,
        limit: int | None,
        next_token: str | None,
        filter_pattern: str,
        interleaved: bool,
    ) -> tuple[list[dict[str, Any]], str | None, list[dict[str, Any]]]:
        """Return one page, in the order of time as CloudWatch does whatever `interleaved` says, and the next token."""
        place = read_token(next_token)[1] if next_token else START
        wanted = [s for name, s in list(self.streams.items()) if not log_stream_names or name in log_stream_names]
        found = (stream.matching(place, start_time, end_time, filter_pattern) for stream in wanted)
        events, more = page(heapq.merge(*found), limit)
        names = {stream.number: stream.log_stream_name for stream in wanted}
        searched = [{"logStreamName": name, "searchedCompletely": True} for name in names.values()]
        following = token("f", events[-1].place) if more else None
        return [_filtered(event, names[event.stream]) for event in events], following, searched


def _filtered(event: Event, stream: str) -> dict[str, Any]:
    return {
        "eventId": str(event.event_id),
        "ingestionTime": event.ingestion_time,
        "logStreamName": stream,
        "message": event.message,
        "timestamp": event.timestamp,
    }
