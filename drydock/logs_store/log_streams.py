"""A stream of CloudWatch Logs whose events are in the store."""

import logging
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from moto.core.utils import unix_time_millis, utcnow
from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.models import LogGroup, LogStream
from moto.logs.utils import EventMessageFilter

from drydock.logs_store.events import END, START, Event, Events, Position, take_page
from drydock.store import Store
from drydock.transfer.line_blocks import LineBlock, read_lines

log = logging.getLogger(__name__)

_INSERT_EVENTS = "INSERT INTO log_events (id, stream, at, ingested, message, line_count)"
_ADD_BATCH = """
UPDATE log_streams SET first = min(coalesce(first, ?1), coalesce(?1, first)),
    last = max(coalesce(last, ?2), coalesce(?2, last)),
    ingested = coalesce(?3, ingested), bytes = bytes + ?4, batches = batches + 1 WHERE id = ?5
RETURNING first, last, ingested, bytes, batches
"""


class StoredStream(LogStream):
    """A stream whose events are in the store.

    Args:
        store: Storage of the events.
        group: The stream's group.
        row: The stream's row in the store: the columns that `log_groups` selects.
    """

    def __init__(self, store: Store, group: LogGroup, row: tuple[Any, ...]) -> None:
        self.number, name, created_at, self.first_event_timestamp, self.last_event_timestamp = row[:5]
        # moto's constructor is not called: it would set a list of events, which is a property here.
        self.log_group, self.log_stream_name = group, name
        self.account_id, self.region = group.account_id, group.region
        self.arn = f"{group.arn}:log-stream:{name}"
        self.creation_time = datetime.fromisoformat(created_at)
        self.ingested, self.stored_bytes, self.upload_sequence_token = row[5:]
        self._store = store
        self._events = Events(store, self.number)

    @property
    def events(self) -> Iterator[Event]:
        """All events, for moto's queries and live tails."""
        return self._events.read_after(START)

    def to_describe_dict(self) -> dict[str, Any]:
        """Return the stream's entry in DescribeLogStreams."""
        description = {
            "arn": self.arn,
            "creationTime": int(unix_time_millis(self.creation_time)),
            "logStreamName": self.log_stream_name,
            "storedBytes": self.stored_bytes,
        }
        if self.ingested is not None:
            description |= {
                "firstEventTimestamp": self.first_event_timestamp,
                "lastEventTimestamp": self.last_event_timestamp,
                "lastIngestionTime": self.ingested,
                "uploadSequenceToken": str(self.upload_sequence_token),
            }
        return description

    def put_log_events(self, log_events: list[dict[str, Any]]) -> str:
        """Store events, all or none, and return the sequence token.

        Raises:
            ResourceNotFoundException: The stream was deleted.
        """
        now_ms = int(unix_time_millis(utcnow()))
        # JSON can contain half of a surrogate pair, which UTF-8 cannot encode.
        messages = [event["message"].encode(errors="replace") for event in log_events]
        times = [int(event["timestamp"]) for event in log_events]  # moto's Lambda sends fractions of ms
        with self._store.transaction() as db:
            first_id = _find_next_id(db)
            rows = [
                (event_id, self.number, time, now_ms, message.decode())
                for event_id, (time, message) in enumerate(zip(times, messages, strict=True), start=first_id)
            ]
            db.executemany(f"{_INSERT_EVENTS} VALUES (?, ?, ?, ?, ?, 0)", rows)
            self._add_batch(db, times, now_ms if times else None, sum(map(len, messages)))
        self._forward_to_subscriptions(rows)
        return f"{self.upload_sequence_token:056d}"

    def append_blocks(self, blocks: Sequence[LineBlock], update: Callable[[sqlite3.Connection], object]) -> None:
        """Append lines of a job's log to the stream, all or none.

        Args:
            blocks: The lines. If a block's timestamp is before the one of an earlier line, it gets the earlier line's.
            update: Makes more changes in the same transaction.

        Raises:
            ResourceNotFoundException: The stream was deleted.
            sqlite3.Error: The disk is full or not writable. A retry can help.
        """
        now_ms, rows = int(unix_time_millis(utcnow())), []
        with self._store.transaction() as db:
            last_id, times = _find_next_id(db) - 1, [self.last_event_timestamp or 0]
            for block in blocks:
                last_id += block.line_count  # the id of a block is the id of its last line
                times.append(max(times[-1], block.timestamp))
                rows.append((last_id, self.number, times[-1], now_ms, block.content, block.line_count))
            db.executemany(f"{_INSERT_EVENTS} VALUES (?, ?, ?, ?, ?, ?)", rows)
            self._add_batch(db, times[1:], now_ms, sum(block.byte_count for block in blocks))
            update(db)
        if self.log_group.subscription_filters:
            for block_id, _, timestamp, _, content, line_count in rows:
                lines = enumerate(read_lines(content), start=block_id - line_count + 1)
                self._forward_to_subscriptions(
                    [(event_id, self.number, timestamp, now_ms, line) for event_id, line in lines]
                )

    def get_log_events(
        self,
        start_time: int | None,
        end_time: int | None,
        limit: int | None,
        next_token: str | None,
        start_from_head: bool,
    ) -> tuple[list[dict[str, Any]], str, str]:
        """Return one page, the token of the previous page, and the token of the next page.

        A reader has reached the end when it gets back the token that it sent.
        """
        is_forward, position = bool(start_from_head), START if start_from_head else END
        if next_token is not None:
            is_forward, position = parse_token(next_token)
        read_events = self._events.read_after if is_forward else self._events.read_before
        page, _ = take_page(read_events(position, start_time, end_time), limit)
        if not is_forward:
            page.reverse()
        first_position, last_position = (page[0].position, page[-1].position) if page else (position, position)
        if not page and position == END:
            first_position = last_position = START
        entries = [
            {"ingestionTime": event.ingestion_time, "message": event.message, "timestamp": event.timestamp}
            for event in page
        ]
        return entries, make_token("b", first_position), make_token("f", last_position)

    def read_matching(self, position: Position, since: int | None, until: int | None, pattern: str) -> Iterator[Event]:
        """Yield the events after a position whose messages match a filter pattern, by moto's rules.

        Args:
            position: Timestamp and id of an event; `START` for the first page.
            since: The earliest timestamp to include, in milliseconds; no limit if None.
            until: The latest timestamp to include, in milliseconds; no limit if None.
            pattern: The filter pattern.
        """
        message_filter = EventMessageFilter(pattern)
        events = self._events.read_after(position, since, until)
        return (event for event in events if message_filter.matches(event.message))

    def _add_batch(
        self, db: sqlite3.Connection, times: Sequence[int], ingested_ms: int | None, size_bytes: int
    ) -> None:
        """Update the stream's totals, inside the transaction, since several threads may add batches.

        Raises:
            ResourceNotFoundException: The stream was deleted.
        """
        values = (min(times, default=None), max(times, default=None), ingested_ms, size_bytes, self.number)
        totals = db.execute(_ADD_BATCH, values).fetchone()
        if totals is None:
            raise ResourceNotFoundException("The specified log stream does not exist.")
        self.first_event_timestamp, self.last_event_timestamp, self.ingested = totals[:3]
        self.stored_bytes, self.upload_sequence_token = totals[3:]

    def _forward_to_subscriptions(self, rows: list[tuple[Any, ...]]) -> None:
        for subscription in list(self.log_group.subscription_filters.values()):
            events = [{"id": row[0], "timestamp": row[2], "message": row[4]} for row in rows]
            service = subscription.destination_arn.split(":")[2]
            try:
                self._send_log_events(service, subscription.destination_arn, subscription.name, events)
            except Exception as error:  # the events are stored, so the writer must not send them again
                message = "subscription %s of %s: events are lost, since %s does not accept them: %r"
                log.warning(message, subscription.name, self.log_group.name, subscription.destination_arn, error)


def _find_next_id(db: sqlite3.Connection) -> int:
    """Return the id for a new event."""
    return int(db.execute("SELECT coalesce(max(id), 0) + 1 FROM log_events").fetchone()[0])


def make_token(direction: str, position: Position) -> str:
    """Return the token with which a client continues at a position, forward (f) or backward (b)."""
    return f"{direction}/{position[0]:028d}{position[1]:028d}"


def parse_token(text: str) -> tuple[bool, Position]:
    """Return whether a client's token continues forward, and at which position.

    Raises:
        InvalidParameterException: The token does not have the format of `make_token`.
    """
    if not re.fullmatch("[bf]/[0-9]{56}", text):
        raise InvalidParameterException("The specified nextToken is invalid.")
    return text[0] == "f", (int(text[2:30]), int(text[30:]))
