"""Log events as rows of the store: written in batches, read in pages, in the order of their time."""

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
-- Every index of SQLite ends with the row's id, so that this one is in a stream's own order.
CREATE INDEX IF NOT EXISTS log_events_in_order ON log_events (stream, at);
"""
# The limits of one answer of CloudWatch Logs; it counts 26 bytes for each event besides its message.
PAGE_EVENTS = 10_000
PAGE_BYTES = 1 << 20
EVENT_BYTES = 26
# The first read of a stream is small, for where thousands are merged; each is twice the one before.
_FIRST_CHUNK, _CHUNK = 16, 1024
_LATEST = 1 << 62

Place = tuple[int, int]
START: Place = (0, 0)
END: Place = (_LATEST, _LATEST)


class Event(NamedTuple):
    """One event; ordered as a stream is.

    Args:
        timestamp: As its writer gave it, in milliseconds since 1970.
        event_id: Its number; no two events share one.
        ingestion_time: When it came, in milliseconds since 1970.
        message: Its text.
        stream: The number of its stream.
    """

    timestamp: int
    event_id: int
    ingestion_time: int
    message: str
    stream: int

    @property
    def place(self) -> Place:
        """Where it stands in its stream."""
        return self.timestamp, self.event_id


class Events:
    """The events of one stream.

    Args:
        store: Where they are.
        stream: The stream's number.
    """

    def __init__(self, store: Store, stream: int) -> None:
        self._store, self._stream = store, stream

    def after(self, place: Place, since: int | None = None, until: int | None = None) -> Iterator[Event]:
        """Yield the events that stand after place, with a timestamp from since to until (milliseconds, both within)."""
        place = max(place, (since or 0, -1))
        statement = (
            "SELECT at, id, ingested, message, stream FROM log_events"
            " WHERE stream = ? AND (at, id) > (?, ?) AND at <= ? ORDER BY at, id LIMIT ?"
        )
        yield from self._walk(statement, place, _LATEST if until is None else until)

    def before(self, place: Place, since: int | None = None, until: int | None = None) -> Iterator[Event]:
        """Yield the events that stand before place, the last one first."""
        place = min(place, (until, _LATEST)) if until is not None else place
        statement = (
            "SELECT at, id, ingested, message, stream FROM log_events"
            " WHERE stream = ? AND (at, id) < (?, ?) AND at >= ? ORDER BY at DESC, id DESC LIMIT ?"
        )
        yield from self._walk(statement, place, since or 0)

    def _walk(self, statement: str, place: Place, bound: int) -> Iterator[Event]:
        # In chunks: a stream may be larger than the memory, and other threads want the store.
        chunk = _FIRST_CHUNK
        while rows := self._store.read(statement, (self._stream, *place, bound, chunk)):
            events = [Event(*row) for row in rows]
            yield from events
            place, chunk = events[-1].place, min(2 * chunk, _CHUNK)


def page(events: Iterator[Event], limit: int | None) -> tuple[list[Event], bool]:
    """Return what one answer holds, and whether there is more.

    At most limit events, at most 1 MiB, and at least one event where there is one.
    """
    found: list[Event] = []
    room = PAGE_BYTES
    for event in events:
        room -= len(event.message.encode()) + EVENT_BYTES
        if found and (room < 0 or len(found) == (limit or PAGE_EVENTS)):
            return found, True
        found.append(event)
    return found, False
