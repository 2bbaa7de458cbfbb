"""All endpoints of one server: create, recover, delete and close them."""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from drydock.endpoints.asynchronous.processor import AsyncInvocations
from drydock.endpoints.capture import DataCapture
from drydock.endpoints.endpoint import Endpoint
from drydock.endpoints.instances.fleet import Fleet
from drydock.endpoints.instances.fleet_options import FleetOptions
from drydock.endpoints.instances.instance import Instance
from drydock.endpoints.invocation import TIMEOUT_S, Invocation, InvocationResult
from drydock.endpoints.metrics import EndpointMetrics
from drydock.endpoints.records import EndpointRecord, EndpointStatus, ServedConfig, Variant
from drydock.endpoints.shadow import ShadowRequests
from drydock.endpoints.utilization import UtilizationRecorder
from drydock.host.executor import Executor
from drydock.host.log_source import ProcessLogs
from drydock.host.tree import HostTree
from drydock.resources import Owner, Resources
from drydock.settings import Settings
from drydock.store import Store
from drydock.transfer.objects import ObjectStore

FOLDER = "endpoints"
"""Folder of the instances' trees, below the server's data folder: endpoints/ACCOUNT/REGION/ENDPOINT/INSTANCE."""

FindRollbackReason = Callable[[Owner, Sequence[str]], str | None]


class Endpoints:
    """The endpoints of all accounts and regions. Safe for several threads.

    Args:
        store: The server's storage.
        settings: The server's settings.
        executor: Runs the instances.
        logs: Moves the instances' logs to CloudWatch Logs.
        find_rollback_reason: Gets names of alarms, and returns why one of them requires a rollback; None if none does.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        executor: Executor,
        logs: ProcessLogs,
        find_rollback_reason: FindRollbackReason,
    ) -> None:
        self.store, self.executor, self.metrics = store, executor, EndpointMetrics(store)
        self.capture, self.shadow = DataCapture(settings), ShadowRequests()
        self._utilization = UtilizationRecorder(self.metrics, self.iterate)
        self.async_invocations = AsyncInvocations(store, settings, self.metrics, self._find, self.record)
        self.settings, self._logs, self._find_rollback_reason = settings, logs, find_rollback_reason
        self._resources = Resources(store, "endpoint")
        self._endpoints: defaultdict[Owner, dict[str, Endpoint]] = defaultdict(dict)
        self._lock = threading.Lock()
        for owner, text in self._resources.iterate():
            self._add(owner, EndpointRecord.load(text))
        self._stored_endpoints = list(self.iterate())

    def get_endpoints(self, owner: Owner) -> dict[str, Endpoint]:
        """Return the endpoints of an account and region by their names. `create` and `delete` change the mapping."""
        return self._endpoints[owner]

    def _find(self, owner: Owner, name: str) -> Endpoint | None:
        return self._endpoints[owner].get(name)

    def record(
        self, endpoint: Endpoint, fleet: Fleet, request: Invocation, result: InvocationResult, duration_s: float
    ) -> None:
        """Count an invocation that has just ended, and capture it if the endpoint's configuration says so.

        Args:
            endpoint: The endpoint.
            fleet: The instances that answered.
            request: The request.
            result: The model's response.
            duration_s: Seconds from the request to the answer.
        """
        owner, name, variant = endpoint.owner, endpoint.name, result.variant
        self.metrics.record_invocation(
            owner,
            name,
            variant,
            status=result.response.status,
            model_latency_s=result.model_latency_s,
            overhead_s=duration_s - result.model_latency_s,
            instances=result.instances,
        )
        requested_at = datetime.now(UTC) - timedelta(seconds=duration_s)
        self.capture.record(owner, name, variant, fleet.config.capture, request, result.response, requested_at)

    def iterate(self) -> Iterator[Endpoint]:
        """Yield the endpoints of all accounts and regions."""
        for endpoints in list(self._endpoints.values()):
            yield from list(endpoints.values())

    def count_by_status(self) -> dict[str, int]:
        """Return how many endpoints have each status."""
        counts = Counter({str(status): 0 for status in EndpointStatus})
        counts.update(endpoint.status for endpoint in self.iterate())
        return dict(counts)

    def count_restarts(self) -> int:
        """Return how often instances of the present endpoints were started again because their process had ended."""
        return sum(endpoint.record.restarts for endpoint in self.iterate())

    def count_standbys(self) -> int:
        """Return how many standby processes of serverless variants have imported their libraries."""
        return sum(fleet.standbys.count_ready() for endpoint in self.iterate() for fleet in endpoint.list_fleets())

    def recover(self) -> None:
        """Start the background threads, and the instances of the stored endpoints.

        Call this when the server already answers.
        """
        self.capture.start()
        self.metrics.start()
        self._utilization.start()
        self.async_invocations.start()
        for endpoint in self._stored_endpoints:
            if endpoint.record.status is EndpointStatus.DELETING:
                self._remove(endpoint)
            else:
                endpoint.recover()

    def create(self, owner: Owner, record: EndpointRecord) -> bool:
        """Store a new endpoint, and start it in the background. Return False if the name is in use, ignoring case."""
        with self._lock:
            if record.name.lower() in map(str.lower, self._endpoints[owner]):
                return False
            endpoint = self._add(owner, record)
            endpoint.save()
        endpoint.create()
        return True

    def delete(self, endpoint: Endpoint) -> None:
        """Delete an endpoint in the background, once the requests in progress have ended. Idempotent.

        After `TIMEOUT_S` seconds, the endpoint is deleted even if some requests have not ended.
        """
        if endpoint.begin_deletion():
            threading.Thread(target=self._drain_and_remove, args=(endpoint,), name=endpoint.name, daemon=True).start()

    def close(self) -> None:
        """Stop all instances. The server starts them again after its next start."""
        self.shadow.close()
        self._utilization.close()
        self.async_invocations.close()
        threads = [threading.Thread(target=endpoint.close, daemon=True) for endpoint in self.iterate()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.capture.close()
        self.metrics.close()

    def remove_all(self, owner: Owner) -> None:
        """Delete all endpoints of an account and region now. Their instances are stopped in the background.

        moto's reset holds a lock that the thread of the logs may need, so this method must not wait for that thread.
        """
        for endpoint in list(self._endpoints[owner].values()):
            endpoint.abandon()
            self._delete_record(endpoint)
            threading.Thread(target=endpoint.close, name=endpoint.name, daemon=True).start()

    def _drain_and_remove(self, endpoint: Endpoint) -> None:
        endpoint.drain(TIMEOUT_S)
        self._remove(endpoint)

    def _remove(self, endpoint: Endpoint) -> None:
        endpoint.close()
        self._delete_record(endpoint)

    def _delete_record(self, endpoint: Endpoint) -> None:
        """Delete the record and the waiting asynchronous requests, unless another endpoint has the name already."""
        with self._lock:
            endpoints = self._endpoints[endpoint.owner]
            if endpoints.get(endpoint.name) is not endpoint:
                return
            self._resources.delete(endpoint.owner, endpoint.name)
            del endpoints[endpoint.name]
        self.async_invocations.discard(endpoint.owner, endpoint.name)

    def _add(self, owner: Owner, record: EndpointRecord) -> Endpoint:
        def make_fleet(config: ServedConfig, on_restart: Callable[[], None]) -> Fleet:
            options = FleetOptions(
                create_instance=lambda variant, name: self._create_instance(owner, record.name, variant, name),
                on_restart=on_restart,
                on_cold_start=lambda variant, seconds: self.metrics.record_setup(owner, record.name, variant, seconds),
                idle_s=self.settings.serverless_idle_s,
                max_processes=self.settings.cores,
            )
            return Fleet(config, options)

        def find_rollback_reason(names: Sequence[str]) -> str | None:
            return self._find_rollback_reason(owner, names)

        endpoint = Endpoint(owner, record, self._resources, make_fleet, find_rollback_reason)
        self._endpoints[owner][record.name] = endpoint
        return endpoint

    def _create_instance(self, owner: Owner, endpoint: str, variant: Variant, name: str) -> Instance:
        settings = self.settings
        tree = HostTree(settings.data / FOLDER / owner.account_id / owner.region / endpoint / name)
        objects = ObjectStore(settings.objects_url, owner.account_id, owner.region, settings.s3_retry_s)
        return Instance(variant, tree, objects, owner, self.executor, settings, self._logs)
