"""AWS Batch's stored resources of all accounts and regions, in memory and in the server's storage."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Generic, TypeVar

from drydock.batch.jobs import ServiceJob
from drydock.batch.records import Queue, QuotaShare, SchedulingPolicy, ServiceEnvironment, StoredRecord
from drydock.resources import Owner, Resources
from drydock.store import Store

R = TypeVar("R", bound=StoredRecord)


class Table(Generic[R]):
    """The stored resources of one kind.

    Args:
        store: The server's storage.
        kind: Name of the kind in the storage.
        record_class: Class of the records.
    """

    def __init__(self, store: Store, kind: str, record_class: type[R]) -> None:
        self._resources = Resources(store, kind)
        self._records: defaultdict[Owner, dict[str, R]] = defaultdict(dict)
        for owner, text in self._resources.iterate():
            record = record_class.load(text)
            self._records[owner][record.key] = record

    def list_all(self, owner: Owner) -> list[R]:
        """Return the resources of an owner, in the order of their creation."""
        return list(self._records.get(owner, {}).values())

    def iterate_owners(self) -> Iterator[Owner]:
        """Yield the owners of resources."""
        yield from [owner for owner, records in list(self._records.items()) if records]

    def find(self, owner: Owner, name: str) -> R | None:
        """Return a resource by its key, its ARN or its name; None if it does not exist."""
        records = self._records.get(owner, {})
        if name in records:
            return records[name]
        return next((record for record in records.values() if name in (record.arn, record.name)), None)

    def get(self, owner: Owner, key: str) -> R | None:
        """Return a resource by its key; None if it does not exist."""
        return self._records.get(owner, {}).get(key)

    def save(self, owner: Owner, record: R) -> None:
        """Store a resource, in place of an earlier one.

        Raises:
            sqlite3.Error: The disk is full or not writable. A retry can help.
        """
        self._resources.write(owner, record.key, record.dump())
        self._records[owner][record.key] = record

    def delete(self, owner: Owner, record: R) -> None:
        """Delete a resource. Idempotent."""
        self._resources.delete(owner, record.key)
        self._records[owner].pop(record.key, None)

    def delete_all(self, owner: Owner) -> None:
        """Delete all resources of an owner."""
        self._resources.delete_all(owner)
        self._records.pop(owner, None)


class Tables:
    """The tables of all kinds of resources.

    Args:
        store: The server's storage.
    """

    def __init__(self, store: Store) -> None:
        self.environments = Table(store, "batch-service-environment", ServiceEnvironment)
        self.policies = Table(store, "batch-scheduling-policy", SchedulingPolicy)
        self.queues = Table(store, "batch-job-queue", Queue)
        self.quota_shares = Table(store, "batch-quota-share", QuotaShare)
        self.jobs = Table(store, "batch-service-job", ServiceJob)

    def list_jobs(self, owner: Owner, queue: Queue) -> list[ServiceJob]:
        """Return the jobs of a queue, in the order of their submission."""
        return [job for job in self.jobs.list_all(owner) if job.queue_arn == queue.arn]

    def list_quota_shares(self, owner: Owner, queue: Queue) -> list[QuotaShare]:
        """Return the quota shares of a queue."""
        return [share for share in self.quota_shares.list_all(owner) if share.queue_arn == queue.arn]

    def find_policy(self, owner: Owner, queue: Queue) -> SchedulingPolicy | None:
        """Return the scheduling policy of a queue; None for first in, first out."""
        return self.policies.get(owner, queue.policy_arn) if queue.policy_arn else None

    def find_resource(self, owner: Owner, arn: str) -> StoredRecord | None:
        """Return the resource that has an ARN; None if there is none."""
        tables: tuple[Table[StoredRecord], ...] = self._tables
        matches = (record for table in tables for record in table.list_all(owner) if record.arn == arn)
        return next(matches, None)

    def save_resource(self, owner: Owner, record: StoredRecord) -> None:
        """Store a change of a resource of any kind: an object that a table has returned."""
        next(table for table in self._tables if table.get(owner, record.key) is record).save(owner, record)

    def delete_all(self, owner: Owner) -> None:
        """Delete all resources of an owner."""
        for table in self._tables:
            table.delete_all(owner)

    @property
    def _tables(self) -> tuple["Table[StoredRecord]", ...]:
        tables: tuple[Table[StoredRecord], ...] = (  # type: ignore[assignment]
            self.environments,
            self.policies,
            self.queues,
            self.quota_shares,
            self.jobs,
        )
        return tables
