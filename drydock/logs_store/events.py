"""Read log events from the store in pages, in the order of their timestamps.

A row is one event, or a block of `line_count` events, one for each line. The id of a block is the id of its last event.
The ids of its other events are the numbers before this id.
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from drydock.store import Store
from drydock.transfer.line_blocks import read_lines

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
    message TEXT NOT NULL, line_count INTEGER NOT NULL DEFAULT 0
);
-- Every index of SQLite ends with the row's id, so this index is in the order of a stream.
CREATE INDEX IF NOT EXISTS log_events_in_order ON log_events (stream, at);
"""
# A data folder of an earlier version has no such column.
ADD_LINE_COUNT = "ALTER TABLE log_events ADD COLUMN line_count INTEGER NOT NULL DEFAULT 0"
# CloudWatch Logs' limits for one response. It counts 26 bytes for each event, in addition to the message.
PAGE_EVENTS = 10_000
PAGE_BYTES = 1 << 20
EVENT_OVERHEAD_BYTES = 26
# Numbers of rows for one read. The first read of a stream is small, since thousands of streams may be merged. Each
# next read is twice as large.
_FIRST_CHUNK_SIZE, _MAX_CHUNK_SIZE = 16, 256
# Larger than every timestamp and every id.
_MAX_TIMESTAMP = 1 << 62
_SELECT = "SELECT at, id, ingested, message, stream, line_count FROM log_events WHERE stream = ?"
# SQL: the id of the first event of a row, and the order of a page that is read backward.
_FIRST_ID, _LATEST_FIRST = "id - max(line_count - 1, 0)", "ORDER BY at DESC, id DESC"

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
            position: Timestamp and id of an event; `START` for all events.
            since: The earliest timestamp to include, in milliseconds; no limit if None.
            until: The latest timestamp to include, in milliseconds; no limit if None.
        """
        position, limit = max(position, (since or 0, -1)), _MAX_TIMESTAMP if until is None else until
        statement = f"{_SELECT} AND (at, id) > (?, ?) AND at <= ? ORDER BY at, id LIMIT ?"
        for size in _list_chunk_sizes():
            rows = self._store.query(statement, (self._stream, *position, limit, size))
            if not rows:
                return
            for event in itertools.chain.from_iterable(map(_expand_row, rows)):
                if event.position > position:
                    position = event.position
                    yield event

    def read_before(self, position: Position, since: int | None = None, until: int | None = None) -> Iterator[Event]:
        """Yield the events before a position, the latest first.

        The arguments are those of `read_after`, but the position for all events is `END`.
        """
        position = min(position, (until, _MAX_TIMESTAMP)) if until is not None else position
        statement = f"{_SELECT} AND at <= ? AND (at, {_FIRST_ID}) < (?, ?) AND at >= ? {_LATEST_FIRST} LIMIT ?"
        for size in _list_chunk_sizes():
            rows = self._store.query(statement, (self._stream, position[0], *position, since or 0, size))
            if not rows:
                return
            for event in itertools.chain.from_iterable(reversed(_expand_row(row)) for row in rows):
                if event.position < position:
                    position = event.position
                    yield event


def _list_chunk_sizes() -> Iterator[int]:
    """Yield the number of rows of each read. It is limited because a stream may be larger than the memory."""
    size = _FIRST_CHUNK_SIZE
    while True:
        yield size
        size = min(2 * size, _MAX_CHUNK_SIZE)


def _expand_row(row: tuple[Any, ...]) -> list[Event]:
    """Return the events of a row: one, or the lines of a block."""
    timestamp, last_id, ingestion_time, message, stream, line_count = row
    if not line_count:
        return [Event(timestamp, last_id, ingestion_time, message, stream)]
    ids = itertools.count(last_id - line_count + 1)
    return [Event(timestamp, next(ids), ingestion_time, line, stream) for line in read_lines(message)]


def take_page(events: Iterator[Event], limit: int | None) -> tuple[list[Event], bool]:
    """Return the events of one response, and whether there are more.

    Args:
        events: All events.
        limit: Maximum number of events; CloudWatch Logs' own limit if None.

    Returns:
        At most `limit` events and at most 1 MiB, but at least one event if there is one; and whether there are more.
    """
    page: list[Event] = []
    remaining_bytes = PAGE_BYTES
    for event in events:
        remaining_bytes -= len(event.message.encode()) + EVENT_OVERHEAD_BYTES
        if page and (remaining_bytes < 0 or len(page) == (limit or PAGE_EVENTS)):
            return page, True
        page.append(event)
    return page, False
