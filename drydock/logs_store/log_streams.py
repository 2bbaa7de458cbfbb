"""One stream of CloudWatch Logs, its events in the store."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from moto.core.utils import unix_time_millis, utcnow
from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.models import LogGroup, LogStream
from moto.logs.utils import EventMessageFilter

from drydock.logs_store.events import END, START, Event, Events, Place, page
from drydock.store import Store


class StoredStream(LogStream):
    """A stream without its events.

    Args:
        store: Where the events are.
        group: Its group.
        row: Its row in the store, without its group: id, name, created and so on.
    """

    def __init__(self, store: Store, group: LogGroup, row: tuple[Any, ...]) -> None:
        self.number, name, created, self.first_event_timestamp, self.last_event_timestamp = row[:5]
        # Where moto's own constructor puts the list of events there is a property here.
        self.log_group, self.log_stream_name = group, name
        self.account_id, self.region = group.account_id, group.region
        self.arn = f"{group.arn}:log-stream:{name}"
        self.creation_time = datetime.fromisoformat(created)
        self.ingested, self.stored_bytes, self.upload_sequence_token = row[5:]
        self._store = store
        self._events = Events(store, self.number)

    @property
    def events(self) -> Iterator[Event]:
        """All events, for moto's queries and live tails."""
        return self._events.after(START)

    def to_describe_dict(self) -> dict[str, Any]:
        """Return what DescribeLogStreams says of it."""
        said = {
            "arn": self.arn,
            "creationTime": int(unix_time_millis(self.creation_time)),
            "logStreamName": self.log_stream_name,
            "storedBytes": self.stored_bytes,
        }
        if self.ingested is not None:
            said |= {
                "firstEventTimestamp": self.first_event_timestamp,
                "lastEventTimestamp": self.last_event_timestamp,
                "lastIngestionTime": self.ingested,
                "uploadSequenceToken": str(self.upload_sequence_token),
            }
        return said

    def put_log_events(self, log_events: list[dict[str, Any]]) -> str:
        """The events are in the store, all or none; returns the sequence token."""
        now = int(unix_time_millis(utcnow()))
        # JSON can hold half of a surrogate pair, and no file can.
        texts = [event["message"].encode(errors="replace") for event in log_events]
        times = [event["timestamp"] for event in log_events]
        with self._store.write() as db:
            number = db.execute("SELECT coalesce(max(id), 0) + 1 FROM log_events").fetchone()[0]
            rows = [
                (number + i, self.number, time, now, text.decode())
                for i, (time, text) in enumerate(zip(times, texts, strict=True))
            ]
            db.executemany("INSERT INTO log_events VALUES (?, ?, ?, ?, ?)", rows)
            found = db.execute(
                "UPDATE log_streams SET first = min(coalesce(first, ?1), coalesce(?1, first)),"
                " last = max(coalesce(last, ?2), coalesce(?2, last)),"
                " ingested = coalesce(?3, ingested), bytes = bytes + ?4, batches = batches + 1 WHERE id = ?5"
                " RETURNING first, last, ingested, bytes, batches",
                (
                    min(times, default=None),
                    max(times, default=None),
                    now if times else None,
                    sum(map(len, texts)),
                    self.number,
                ),
            ).fetchone()
            if found is None:
                raise ResourceNotFoundException("The specified log stream does not exist.")
            # Within the transaction: batches of several threads follow each other here too.
            self.first_event_timestamp, self.last_event_timestamp, self.ingested = found[:3]
            self.stored_bytes, self.upload_sequence_token = found[3:]
        self._forward(rows)
        return f"{self.upload_sequence_token:056d}"

    def _forward(self, rows: list[tuple[Any, ...]]) -> None:
        for target in self.log_group.subscription_filters.values():
            events = [{"id": row[0], "timestamp": row[2], "message": row[4]} for row in rows]
            service = target.destination_arn.split(":")[2]
            self._send_log_events(service, target.destination_arn, target.name, events)

    def get_log_events(
        self,
        start_time: int | None,
        end_time: int | None,
        limit: int | None,
        next_token: str | None,
        start_from_head: bool,
    ) -> tuple[list[dict[str, Any]], str, str]:
        """Return one page, the token of the page before, and that of the page after.

        A reader has reached the end where it gets back the token that it gave.
        """
        forward, place = bool(start_from_head), START if start_from_head else END
        if next_token is not None:
            forward, place = read_token(next_token)
        if forward:
            found, _ = page(self._events.after(place, start_time, end_time), limit)
        else:
            found, _ = page(self._events.before(place, start_time, end_time), limit)
            found.reverse()
        first, last = (found[0].place, found[-1].place) if found else (place, place)
        if not found and place == END:
            first = last = START
        said = [{"ingestionTime": e.ingestion_time, "message": e.message, "timestamp": e.timestamp} for e in found]
        return said, token("b", first), token("f", last)

    def matching(self, after: Place, since: int | None, until: int | None, pattern: str) -> Iterator[Event]:
        """Yield the events after a place, from since to until, whose message matches the pattern as moto does it."""
        wanted = EventMessageFilter(pattern)
        return (event for event in self._events.after(after, since, until) if wanted.matches(event.message))


def token(direction: str, place: Place) -> str:
    """Return what a client gives back to go on from place, forward (f) or backward (b)."""
    return f"{direction}/{place[0]:028d}{place[1]:028d}"


def read_token(text: str) -> tuple[bool, Place]:
    """Return whether a client's token goes forward, and from where.

    Raises:
        InvalidParameterException: It is none of ours.
    """
    if not re.fullmatch("[bf]/[0-9]{56}", text):
        raise InvalidParameterException("The specified nextToken is invalid.")
    return text[0] == "f", (int(text[2:30]), int(text[30:]))
