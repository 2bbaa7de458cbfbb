"""Store the settings and the streams of a group of CloudWatch Logs."""

import heapq
from typing import Any

from moto.core.utils import utcnow
from moto.logs.exceptions import ResourceAlreadyExistsException, ResourceNotFoundException
from moto.logs.models import LogGroup
from moto.utilities.tagging_service import TaggingService

from drydock import encoding
from drydock.logs_store.events import START, Event, take_page
from drydock.logs_store.log_streams import StoredStream, make_token, parse_token
from drydock.store import Store

_SELECT_STREAMS = """
SELECT id, name, created, first, last, ingested, bytes, batches FROM log_streams WHERE log_group = ? ORDER BY id
"""
_INSERT_STREAM = """
INSERT INTO log_streams (log_group, name, created) VALUES (?, ?, ?)
RETURNING id, name, created, first, last, ingested, bytes, batches
"""
_DELETE_EVENTS = "DELETE FROM log_events WHERE stream IN (SELECT id FROM log_streams WHERE log_group = ?)"
# Attributes of moto's group that are stored.
_SETTINGS = ("creation_time", "retention_in_days", "kms_key_id")


class StoredGroup(LogGroup):
    """A group whose streams are in the store.

    Args:
        store: Storage of the streams.
        number: Id of the group's row.
        group: The group that moto has created.
        tagger: moto's tags of the groups of this account and region.
    """

    def __init__(self, store: Store, number: int, group: LogGroup, tagger: TaggingService) -> None:
        self.__dict__.update(vars(group))
        self.store, self.number, self._tagger = store, number, tagger
        self.streams = {row[1]: StoredStream(self.store, self, row) for row in store.query(_SELECT_STREAMS, (number,))}

    def build_row(self) -> tuple[str, str, str, str]:
        """Return the group's row, without its id."""
        # The tags do not come from moto's registry of backends: moto's reset holds the registry's lock while it waits
        # for the lock of the groups, which the caller may hold.
        tags = self._tagger.get_tag_dict_for_resource(self.arn)
        record = {"state": {name: getattr(self, name) for name in _SETTINGS}, "tags": tags}
        return self.account_id, self.region, self.name, encoding.dumps(record)

    def save(self) -> None:
        """Write the group's settings and tags to the store."""
        *_, record = self.build_row()
        with self.store.transaction() as db:
            db.execute("UPDATE log_groups SET record = ? WHERE id = ?", (record, self.number))

    def create_log_stream(self, log_stream_name: str) -> None:
        """Create a stream.

        Raises:
            ResourceAlreadyExistsException: The stream exists.
        """
        if log_stream_name in self.streams:
            raise ResourceAlreadyExistsException()
        values = (self.number, log_stream_name, utcnow().isoformat())
        with self.store.transaction() as db:
            row = db.execute(_INSERT_STREAM, values).fetchone()
        self.streams[log_stream_name] = StoredStream(self.store, self, row)

    def delete_log_stream(self, log_stream_name: str) -> None:
        """Delete a stream with its events.

        Raises:
            ResourceNotFoundException: The stream does not exist.
        """
        stream = self.streams.get(log_stream_name)
        if stream is None:
            raise ResourceNotFoundException()
        with self.store.transaction() as db:
            db.execute("DELETE FROM log_events WHERE stream = ?", (stream.number,))
            db.execute("DELETE FROM log_streams WHERE id = ?", (stream.number,))
        self.streams.pop(log_stream_name, None)

    def delete_rows(self) -> None:
        """Delete the group with its streams and events from the store. Idempotent."""
        with self.store.transaction() as db:
            db.execute(_DELETE_EVENTS, (self.number,))
            db.execute("DELETE FROM log_streams WHERE log_group = ?", (self.number,))
            db.execute("DELETE FROM log_groups WHERE id = ?", (self.number,))

    def set_retention_policy(self, retention_in_days: str | None) -> None:
        """Set the retention that DescribeLogGroups shows. No event is deleted."""
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
        """Return one page, the token of the next page (None if there is none), and the searched streams.

        The events are in the order of their timestamps, as in CloudWatch Logs, whatever `interleaved` is.
        """
        position = parse_token(next_token)[1] if next_token else START
        streams = [
            stream for name, stream in list(self.streams.items()) if not log_stream_names or name in log_stream_names
        ]
        matching_events = (stream.read_matching(position, start_time, end_time, filter_pattern) for stream in streams)
        events, has_more = take_page(heapq.merge(*matching_events), limit)
        names = {stream.number: stream.log_stream_name for stream in streams}
        searched_streams = [{"logStreamName": name, "searchedCompletely": True} for name in names.values()]
        token = make_token("f", events[-1].position) if has_more else None
        return [_describe_event(event, names[event.stream]) for event in events], token, searched_streams


def _describe_event(event: Event, stream_name: str) -> dict[str, Any]:
    return {
        "eventId": str(event.event_id),
        "ingestionTime": event.ingestion_time,
        "logStreamName": stream_name,
        "message": event.message,
        "timestamp": event.timestamp,
    }
