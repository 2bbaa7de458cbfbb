"""Log events as rows of the store: written in batches, read in pages, in the order of their timestamps."""

from collections.abc import Iterator
from typing import NamedTuple

from drydock.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS log_groups (
    id INTEGER PRIMARY KEY, account TEXT NOT NULL, region TEXT NOT NULL, name TEXT NOT NULL, record TEXT NOT NULL,
    UNIQUE (account, region, name)
);
CREATE TABLE IF NOT EXISTS log_streams (
    id INTEGER PRIMARY KEY, log_group INTEGER NOT NULL, name TEXT NOT NULL, created TEXT NOT NULL,
    first INTEGER, last INTEGER, ingested INTEGER, bytes INTEGER NOT NULL DEFAULT 0, batches INTEGER NOT NULL DEFAULT 0,
    UNIQUE (log_group, name)
);
CREATE TABLE IF NOT EXISTS log_events (
    id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, at INTEGER NOT NULL, ingested INTEGER NOT NULL,
    message TEXT NOT NULL
);
-- Every index of SQLite ends with the row's id, so this index is in the order of a stream.
CREATE INDEX IF NOT EXISTS log_events_in_order ON log_events (stream, at);
"""
# CloudWatch Logs' limits for one response. It counts 26 bytes for each event, in addition to the message.
PAGE_EVENTS = 10_000
PAGE_BYTES = 1 << 20
EVENT_OVERHEAD_BYTES = 26
# Numbers of events for one read. The first read of a stream is small, since thousands of streams may be merged. Each
# next read is twice as large.
_FIRST_CHUNK_SIZE, _MAX_CHUNK_SIZE = 16, 1024
_MAX_TIMESTAMP = 1 << 62

# Timestamp and id of an event: events of a stream are ordered by them.
Position = tuple[int, int]
START: Position = (0, 0)
END: Position = (_MAX_TIMESTAMP, _MAX_TIMESTAMP)


class Event(NamedTuple):
    """One event. Events sort in the order of their stream.

    Attributes:
        timestamp: The writer's timestamp, in milliseconds since 1970.
        event_id: The event's number, unique among all events.
        ingestion_time: When the event was received, in milliseconds since 1970.
        message: The event's text.
        stream: Number of the event's stream.
    """

    timestamp: int
    event_id: int
    ingestion_time: int
    message: str
    stream: int

    @property
    def position(self) -> Position:
        """The event's position in its stream."""
        return self.timestamp, self.event_id


class Events:
    """The events of one stream.

    Args:
        store: Storage of the events.
        stream: Number of the stream.
    """

    def __init__(self, store: Store, stream: int) -> None:
        self._store, self._stream = store, stream

    def read_after(self, position: Position, since: int | None = None, until: int | None = None) -> Iterator[Event]:
        """Yield the events after a position, the earliest first.

        Args:
            position: The position.
            since: The earliest timestamp to include, in milliseconds; no limit if None.
            until: The latest timestamp to include, in milliseconds; no limit if None.
        """
        position = max(position, (since or 0, -1))
        statement = (
            "SELECT at, id, ingested, message, stream FROM log_events"
            " WHERE stream = ? AND (at, id) > (?, ?) AND at <= ? ORDER BY at, id LIMIT ?"
        )
        yield from self._read_chunks(statement, position, _MAX_TIMESTAMP if until is None else until)

    def read_before(self, position: Position, since: int | None = None, until: int | None = None) -> Iterator[Event]:
        """Yield the events before a position, the latest first. The arguments are those of `read_after`."""
        position = min(position, (until, _MAX_TIMESTAMP)) if until is not None else position
        statement = (
            "SELECT at, id, ingested, message, stream FROM log_events"
            " WHERE stream = ? AND (at, id) < (?, ?) AND at >= ? ORDER BY at DESC, id DESC LIMIT ?"
        )
        yield from self._read_chunks(statement, position, since or 0)

    def _read_chunks(self, statement: str, position: Position, limit: int) -> Iterator[Event]:
        # In chunks, since a stream may be larger than the memory, and other threads need the store meanwhile.
        chunk_size = _FIRST_CHUNK_SIZE
        while rows := self._store.query(statement, (self._stream, *position, limit, chunk_size)):
            events = [Event(*row) for row in rows]
            yield from events
            position, chunk_size = events[-1].position, min(2 * chunk_size, _MAX_CHUNK_SIZE)


def take_page(events: Iterator[Event], limit: int | None) -> tuple[list[Event], bool]:
    """Return the events of one response, and whether there are more.

    Args:
        events: All events.
        limit: Maximum number of events; CloudWatch Logs' own limit if None.

    Returns:
        At most `limit` events and at most 1 MiB, but at least one event if there is one; and whether there are more.
    """
    page: list[Event] = []
    bytes_left = PAGE_BYTES
    for event in events:
        bytes_left -= len(event.message.encode()) + EVENT_OVERHEAD_BYTES
        if page and (bytes_left < 0 or len(page) == (limit or PAGE_EVENTS)):
            return page, True
        page.append(event)
    return page, False
