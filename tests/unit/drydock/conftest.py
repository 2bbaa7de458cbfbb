"""Provide requests, a store and jobs for the unit tests."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from drydock.jobs.record import SCHEMA
from drydock.jobs.training.job import TrainingJob
from drydock.store import Store


@pytest.fixture
def make_request() -> Callable[..., dict[str, Any]]:
    """Return the function that gives a valid CreateTrainingJob request with some fields changed."""

    def make(**fields: Any) -> dict[str, Any]:
        return {
            "TrainingJobName": "job",
            "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
            "RoleArn": "arn:aws:iam::123456789012:role/drydock",
            "HyperParameters": {
                "sagemaker_program": "train.py",
                "sagemaker_submit_directory": "s3://b/s.tar.gz",
            },
            "OutputDataConfig": {"S3OutputPath": "s3://b/output"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
            **fields,
        }

    return make


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with the table of jobs."""
    store = Store(tmp_path / "drydock.sqlite")
    store.create_tables(SCHEMA)
    return store


@pytest.fixture
def make_job(make_request: Callable[..., dict[str, Any]], store: Store) -> Callable[..., TrainingJob]:
    """Return the function that creates a job, with some fields of its request changed."""

    def make(**fields: Any) -> TrainingJob:
        return TrainingJob.create(store, make_request(**fields), "123456789012", "us-east-1", "arn:job", 0.3)

    return make


@pytest.fixture
def job(make_job: Callable[..., TrainingJob]) -> TrainingJob:
    """Return a new job."""
    return make_job()


@pytest.fixture
def watch_lock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Store], list[bool]]:
    """Return the function that records each time that moto's lock is taken: True if a transaction of the store is open.

    The opposite order is allowed: the first request for Logs reads the store while it holds moto's lock.
    """

    def watch(store: Store) -> list[bool]:
        transaction, open_transactions, lock_uses = store.transaction, list[bool](), list[bool]()

        @contextmanager
        def record_transaction() -> Iterator[Any]:
            with transaction() as db:
                open_transactions.append(True)
                yield db
                open_transactions.clear()

        class Lock:
            def __enter__(self) -> None:
                lock_uses.append(bool(open_transactions))

            def __exit__(self, *_: object) -> None:
                """Do nothing."""

        monkeypatch.setattr(store, "transaction", record_transaction)
        monkeypatch.setattr("moto.core.base_backend.backend_lock", Lock())
        return lock_uses

    return watch
