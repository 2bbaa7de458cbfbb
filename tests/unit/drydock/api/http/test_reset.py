"""Test what is done before moto resets its backends."""

import threading
from pathlib import Path
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.core.base_backend import backend_lock
from moto.logs.models import logs_backends
from moto.sagemaker.models import sagemaker_backends

from drydock.api.http.reset import PATH, Reset
from drydock.batch.queues import BatchQueues
from drydock.ec2.spot_prices import SpotPrices
from drydock.resources import Owner, Resources
from drydock.store import Store

OWNER = Owner("999999999999", "us-east-1")


def test_reset_waits_for_the_queues_before_moto_locks_its_backends(tmp_path: Path) -> None:
    """The scheduler of the queues uses moto's backends while it holds the queues' lock."""
    store = Store(tmp_path / "store.sqlite")
    batch: Any = BatchQueues(store, None, lambda: 0.0)  # no job is started
    queues, answers = Resources(store, "batch-job-queue"), list[Any]()
    queues.write(OWNER, "queue", "{}")

    def reset_moto(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        with backend_lock:
            return [b"moto"] if not list(queues.iterate()) else [b"the queue is still there"]

    middleware = Reset(store, SpotPrices(store), batch, reset_moto)
    environ = {"PATH_INFO": PATH, "REQUEST_METHOD": "POST"}
    thread = threading.Thread(target=lambda: answers.extend(middleware(environ, None)), daemon=True)
    with batch.lock:
        thread.start()
        thread.join(0.5)
        assert thread.is_alive()
        assert backend_lock.acquire(timeout=120), "the scheduler waits for ever for a backend"
        backend_lock.release()
    thread.join(60)
    assert answers == [b"moto"]
    for backends in (sagemaker_backends, cloudwatch_backends, logs_backends):
        del backends[OWNER.account_id]
