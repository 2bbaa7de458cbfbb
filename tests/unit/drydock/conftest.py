"""What the unit tests share: a request, and its job."""

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
    """Return a valid CreateTrainingJob request with the given members changed."""

    def make(**more: Any) -> dict[str, Any]:
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
            **more,
        }

    return make


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with the table of jobs."""
    store = Store(tmp_path / "drydock.sqlite")
    store.create_tables(SCHEMA)
    return store


@pytest.fixture
def make_job(make_request: Callable[..., dict[str, Any]], store: Store) -> Callable[..., TrainingJob]:
    """Return a job that has just been made, with the given members of its request changed."""

    def make(**more: Any) -> TrainingJob:
        return TrainingJob.create(store, make_request(**more), "123456789012", "us-east-1", "arn:job", 0.3)

    return make


@pytest.fixture
def job(make_job: Callable[..., TrainingJob]) -> TrainingJob:
    """A job that has just been made."""
    return make_job()


@pytest.fixture
def asked_under(monkeypatch: pytest.MonkeyPatch) -> Callable[[Store], list[bool]]:
    """Of each time that moto's lock is taken from then on: whether that was under the store's.

    The other way round is Logs' backend, which the first request for it makes: it reads the store under moto's.
    """

    def watch(store: Store) -> list[bool]:
        write, writing, asked = store.transaction, list[bool](), list[bool]()

        @contextmanager
        def watched() -> Iterator[Any]:
            with write() as db:
                writing.append(True)
                yield db
                writing.clear()

        class Lock:
            def __enter__(self) -> None:
                asked.append(bool(writing))

            def __exit__(self, *_: object) -> None:
                """Nothing."""

        monkeypatch.setattr(store, "transaction", watched)
        monkeypatch.setattr("moto.core.base_backend.backend_lock", Lock())
        return asked

    return watch
