"""Run the HTTP server: moto's application with drydock's backends, and the requests under /drydock/."""

import fcntl
import logging
import shutil
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from drydock.api import sagemaker
from drydock.api.batch.training_jobs import ServiceTrainingJobs
from drydock.api.control import CONTROL_PREFIX, ControlEndpoints
from drydock.api.feature_store.runtime import FeatureStoreRuntime
from drydock.api.http.connections import LimitedServer
from drydock.api.http.error_answers import ErrorAnswers
from drydock.api.http.own_hosts import OwnHosts
from drydock.api.http.request_checks import RequestChecks
from drydock.api.http.reset import Reset
from drydock.api.lazy_services import LazyServices, MotoApplication
from drydock.api.runtime import Runtime
from drydock.api.tuning.training_jobs import BackendTrainingJobs
from drydock.autoscaling.service import SERVICE, Autoscaling
from drydock.batch.queues import BatchQueues
from drydock.batch.scheduler import BatchScheduler
from drydock.cloudwatch import backend as cloudwatch
from drydock.cloudwatch.alarms import AlarmEvaluator, find_rollback_reason
from drydock.ec2.spot_prices import SpotPrices
from drydock.endpoints import registry
from drydock.endpoints.registry import Endpoints
from drydock.errors import RunFailed, StartFailed
from drydock.execution.job_logs import JobLogs
from drydock.execution.queue import JobQueue
from drydock.execution.recovery import Heartbeat
from drydock.faults.outages import Outages
from drydock.faults.spot_market import SpotMarket, SpotPolicy
from drydock.feature_store.registry import FeatureGroups
from drydock.host.executor import Executor
from drydock.jobs.kinds import KINDS
from drydock.logs_store import backend as logs_backend
from drydock.notebooks.registry import Notebooks
from drydock.s3_store import backend as s3_backend
from drydock.s3_store.external_s3 import ExternalS3Middleware
from drydock.settings import Settings
from drydock.store import Store
from drydock.tuning.registry import TuningJobs
from drydock.wsgi import WsgiApplication, answer_error

log = logging.getLogger(__name__)

BACKLOG = 128
"""Largest number of connections that the operating system accepts before the server does."""
POLL_S = 0.1
"""Seconds between two checks whether the HTTP server must stop."""


class Application:
    """The WSGI application of one server. A process can have only one, since moto's registry of backends is global.

    Args:
        services: Answers requests to AWS's services.
        control_endpoints: Answers drydock's own requests, under /drydock/.
        request_checks: Checks each request before it is answered.
    """

    def __init__(
        self, services: WsgiApplication, control_endpoints: ControlEndpoints, request_checks: RequestChecks
    ) -> None:
        self._services, self._control_endpoints, self._request_checks = services, control_endpoints, request_checks

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        if error_response := self._request_checks.find_error_response(environ):
            return answer_error(environ, start_response, error_response)
        # A signed request under this path is for an object in an S3 bucket that is called drydock.
        is_control = environ.get("PATH_INFO", "").startswith(CONTROL_PREFIX) and "HTTP_AUTHORIZATION" not in environ
        return (self._control_endpoints if is_control else self._services)(environ, start_response)


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Args:
        host: Address to bind.
        port: Port to bind; 0 for any free port.

    Raises:
        StartFailed: The port is in use, or the address is not one of this machine. A retry can help.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise StartFailed(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return listener


@contextmanager
def lock_data_folder(data: Path) -> Iterator[None]:
    """Create the data folder if necessary, and lock it against other servers while the `with` block runs.

    Raises:
        StartFailed: Another server uses the data folder, or the folder is not writable. A retry can help.
    """
    try:
        _create_private_folder(data)
        lock = (data / "lock").open("a")
    except OSError as error:
        raise StartFailed(f"cannot use the data folder {data}: {error.strerror or error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StartFailed(f"the data folder {data} is in use by another drydock") from error
        yield


def _create_private_folder(folder: Path) -> None:
    """Create a folder and the missing folders above it. Only their owner may use them: the code of jobs is in them."""
    if not folder.exists():
        _create_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def run_server(settings: Settings, executor: Executor, spot: SpotPolicy, listener: socket.socket) -> Iterator[JobQueue]:
    """Answer requests on a socket during the `with` block, then end the server and its jobs. Yield the queue of jobs.

    Args:
        settings: The server's settings; the url contains the socket's port.
        executor: Runs the jobs.
        spot: How the spot market behaves.
        listener: The socket, from `open_listener`.

    Raises:
        StartFailed: The data of an earlier server cannot be read, or its processes cannot be killed. A retry can help.
    """
    kill_leftover_hosts(settings.data, executor)
    store = _open_store(settings.data)
    logs = JobLogs(store)
    queue = JobQueue(settings, executor, SpotMarket(spot), Heartbeat(store), logs)
    endpoints, notebooks = Endpoints(store, settings, executor, logs, find_rollback_reason), Notebooks(store)
    autoscaling = Autoscaling(endpoints, settings.scaling_period_s)
    tuning_jobs, batch = TuningJobs(store, BackendTrainingJobs(queue)), BatchQueues(store, ServiceTrainingJobs(queue))
    application = _build_application(settings, store, queue, endpoints, tuning_jobs, autoscaling, notebooks, batch)
    server = LimitedServer(listener, application)
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), name="http", daemon=True)
    thread.start()
    queue.start()
    endpoints.recover()
    for watcher in (watchers := (tuning_jobs, AlarmEvaluator(), autoscaling, notebooks, BatchScheduler(batch))):
        watcher.start()
    try:
        yield queue
    finally:
        # Jobs and endpoints are ended first, since they still use the server while they end. Spot jobs resume later.
        for watcher in watchers:
            watcher.close()
        endpoints.close()
        queue.close()
        kill_leftover_hosts(settings.data, executor)  # if a thread hangs in a transfer, its processes are still alive
        server.shutdown()
        thread.join()
        server.server_close()
        store.close()


def kill_leftover_hosts(data: Path, executor: Executor) -> None:
    """Kill the processes and containers that an earlier server on this data folder left running. Idempotent.

    The folders of endpoints' instances are deleted.

    Raises:
        StartFailed: A process or container cannot be killed. A retry can help.
    """
    try:
        for folder in (*(kind.folder for kind in KINDS), registry.FOLDER):
            for process_file in data.glob(f"{folder}/*/*/*/*.process.json"):
                if executor.kill_leftover_host(process_file):
                    log.warning("killed a leftover process of %s", process_file.parent.name)
        shutil.rmtree(data / registry.FOLDER, ignore_errors=True)  # an instance downloads its model at each start
        executor.kill_all_hosts(data)
    except RunFailed as error:
        raise StartFailed(f"cannot end what an earlier drydock left running: {error}") from None


def _build_application(
    settings: Settings,
    store: Store,
    queue: JobQueue,
    endpoints: Endpoints,
    tuning_jobs: TuningJobs,
    autoscaling: Autoscaling,
    notebooks: Notebooks,
    batch: BatchQueues,
) -> Application:
    """Install drydock's backends in moto, and return the server's application."""
    spot_prices = SpotPrices(store)
    lazy_services = LazyServices(
        {
            SERVICE: autoscaling.load,
            "batch": partial(_install_batch, batch),
            "ec2": partial(_install_ec2, spot_prices),
        }
    )
    moto_application = MotoApplication(lazy_services.create_app)
    add_s3_middleware = s3_backend.install(store, settings.data / "objects")
    services = ExternalS3Middleware(add_s3_middleware(moto_application), settings.s3_url)
    feature_groups = FeatureGroups(store)
    runtime = Runtime(endpoints, FeatureStoreRuntime(feature_groups, services))
    outages = Outages(Reset(store, spot_prices, batch, runtime))
    logs_backend.install(store)
    cloudwatch.install(store)
    sagemaker.install(queue, store, endpoints, feature_groups, tuning_jobs, notebooks)
    request_checks = RequestChecks(settings.url, OwnHosts(settings.own_hosts))
    control_endpoints = ControlEndpoints(queue, outages, endpoints, spot_prices, notebooks)
    return Application(ErrorAnswers(outages), control_endpoints, request_checks)


def _install_ec2(spot_prices: SpotPrices) -> None:
    from drydock.ec2 import backend

    backend.install(spot_prices)


def _install_batch(batch: BatchQueues) -> None:
    from drydock.api.batch import backend

    backend.install(batch)


def _open_store(data: Path) -> Store:
    try:
        return Store(data / "drydock.sqlite")
    except sqlite3.Error as error:
        raise StartFailed(f"cannot open the database in the data folder {data}: {error}") from None
