"""One endpoint: what it serves, and the deployments that change it. Each deployment runs in a thread of its own."""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from drydock.endpoints.deployment import Deployment, FindRollbackReason, RollbackRequired
from drydock.endpoints.description import EndpointDescription
from drydock.endpoints.faults import VariantFaults
from drydock.endpoints.instances.fleet import Fleet
from drydock.endpoints.invocation import TIMEOUT_S
from drydock.endpoints.records import EndpointRecord, EndpointStatus, ServedConfig
from drydock.endpoints.sizes import VariantSize, set_sizes
from drydock.endpoints.traffic import build_traffic_plan
from drydock.errors import DrydockError, RunFailed
from drydock.jobs.record import get_now
from drydock.resources import Owner, Resources

log = logging.getLogger(__name__)

# Seconds between two attempts to start the instances of a stored endpoint.
RECOVERY_PAUSE_S = 5.0
NOT_SERVING_STATUSES = (EndpointStatus.CREATING, EndpointStatus.FAILED, EndpointStatus.DELETING)

MakeFleet = Callable[[ServedConfig, Callable[[], None]], Fleet]
"""The second argument is called whenever an instance is started again because its process has ended."""


class Endpoint(EndpointDescription):
    """One endpoint. Safe for several threads.

    Args:
        owner: The endpoint's account and region.
        record: The endpoint's record, which `save` stores.
        resources: Storage of the record.
        make_fleet: Creates the instances of a configuration, and does not start them.
        find_rollback_reason: Gets names of alarms, and returns why one of them requires a rollback; None if none does.
    """

    def __init__(
        self,
        owner: Owner,
        record: EndpointRecord,
        resources: Resources,
        make_fleet: MakeFleet,
        find_rollback_reason: FindRollbackReason,
    ) -> None:
        super().__init__(record)
        self.owner, self.faults = owner, VariantFaults()
        self._resources, self._make_fleet, self._find_rollback_reason = resources, make_fleet, find_rollback_reason
        self._lock = threading.RLock()
        self._next_fleet: Fleet | None = None
        self._next_share = 0.0
        self._close_event = threading.Event()
        # A stored endpoint that served before the server was restarted: requests wait until its instances have started.
        if record.status not in NOT_SERVING_STATUSES:
            self._fleet = make_fleet(record.plan, self._count_restart)

    @property
    def fleet(self) -> Fleet | None:
        """The instances for one request, chosen at random during an update; None if the endpoint does not serve."""
        if self.record.status in NOT_SERVING_STATUSES:
            return None
        next_fleet = self._next_fleet
        if next_fleet is not None and random.random() < self._next_share:  # noqa: S311  no secret
            return next_fleet
        return self._fleet

    def list_fleets(self) -> list[Fleet]:
        """Return the instances that serve, and those that a creation or an update starts."""
        return [fleet for fleet in (self._fleet, self._next_fleet) if fleet]

    def save(self) -> None:
        """Store the record with the present time as LastModifiedTime."""
        with self._lock:
            self.record.modified = get_now()
            self._store()

    def set_tags(self, tags: list[dict[str, str]]) -> None:
        """Replace the tags. LastModifiedTime stays: tags are no part of the endpoint's description."""
        with self._lock:
            self.record.tags = tags
            self._store()

    def create(self) -> None:
        """Start the instances of a new endpoint in the background. The status becomes InService or Failed."""
        self._run_in_background(self._create)

    def update(self, config: ServedConfig, deployment: dict[str, Any] | None) -> bool:
        """Replace the instances by those of `config` in the background. Return False if the status is not InService."""
        with self._lock:
            if not self._is_in_service:
                return False
            self.record.next_plan, self.record.deployment = config, deployment
            self._set_status(EndpointStatus.UPDATING)
        self._run_in_background(self._update)
        return True

    def scale(self, sizes: Mapping[str, VariantSize]) -> bool:
        """Set the size of each variant in the background; `sizes` has the new sizes by the variants' names.

        The new values are stored at once, so they survive a kill of the server.

        Returns:
            False if the endpoint is not InService; then nothing changes.
        """
        with self._lock:
            if not self._is_in_service:
                return False
            variants = self.record.plan.variants
            old_sizes = {variant.name: VariantSize.from_variant(variant) for variant in variants}
            set_sizes(variants, sizes)
            self._set_status(EndpointStatus.UPDATING)
        self._run_in_background(lambda: self._scale(old_sizes))
        return True

    def begin_deletion(self) -> bool:
        """Refuse new requests. Return False if the endpoint is closed, or is being deleted already."""
        with self._lock:
            if self._close_event.is_set() or self.record.status is EndpointStatus.DELETING:
                return False
            self._set_status(EndpointStatus.DELETING)
            return True

    def abandon(self) -> None:
        """Stop storing the record. The caller then deletes the record, and closes the endpoint later."""
        self._close_event.set()
        with self._lock:  # wait until a change that is being stored is complete
            pass

    def drain(self, timeout_s: float) -> None:
        """Wait until no request is in progress, at most `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        for fleet in self.list_fleets():
            fleet.drain(max(deadline - time.monotonic(), 0.0))

    def recover(self) -> None:
        """Start the instances again after a restart of the server. An interrupted creation or update starts again.

        Call this when the server already answers requests.
        """
        status = self.record.status
        if status is EndpointStatus.CREATING:
            self.create()
        elif fleet := self._fleet:
            # Read now: an InService endpoint can be updated while its instances start again.
            has_interrupted_update = status is EndpointStatus.UPDATING and self.record.next_plan is not None
            was_in_service = status is EndpointStatus.IN_SERVICE
            self._run_in_background(
                lambda: self._recover(
                    fleet, has_interrupted_update=has_interrupted_update, was_in_service=was_in_service
                )
            )

    def close(self) -> None:
        """Stop all instances, and end the deployment in progress. Idempotent."""
        self._close_event.set()
        with self._lock:
            fleets = self.list_fleets()
            self._fleet = self._next_fleet = None
        for fleet in fleets:
            fleet.stop()

    @property
    def _is_in_service(self) -> bool:
        return not self._close_event.is_set() and self.record.status is EndpointStatus.IN_SERVICE

    def _run_in_background(self, action: Callable[[], None]) -> None:
        threading.Thread(target=self._run, args=(action,), name=self.record.name, daemon=True).start()

    def _run(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # without a final status, clients would wait forever
            if not self._close_event.is_set():
                log.exception("endpoint %s: internal error", self.record.name)
                status = EndpointStatus.IN_SERVICE if self._fleet else EndpointStatus.FAILED
                self._set_status(status, f"InternalServerError: {type(error).__name__}: {error}")

    def _set_status(self, status: EndpointStatus, reason: str | None = None) -> None:
        with self._lock:
            # After `close`, the stored status stays: the server resumes from it after a restart. A deletion is final.
            if self._close_event.is_set() or self.record.status is EndpointStatus.DELETING:
                return
            self.record.status, self.record.reason = status, reason
            self.save()

    def _count_restart(self) -> None:
        with self._lock:
            if not self._close_event.is_set():
                self.record.restarts += 1
                self._store()  # LastModifiedTime stays: nobody has changed the endpoint

    def _store(self) -> None:
        self._resources.write(self.owner, self.record.name, self.record.dump())

    def _create(self) -> None:
        fleet = self._make_next_fleet(self.record.plan)
        try:
            fleet.scale(starts_serverless=True)
        except RunFailed as error:
            self._next_fleet = None
            return self._set_status(EndpointStatus.FAILED, error.reason)
        with self._lock:
            self._fleet, self._next_fleet = fleet, None
            self._set_status(EndpointStatus.IN_SERVICE)

    def _make_next_fleet(self, config: ServedConfig) -> Fleet:
        """Create the next instances, and do not start them. If the endpoint is closed, they can no longer start."""
        fleet = self._make_fleet(config, self._count_restart)
        with self._lock:
            self._next_fleet = fleet
            if self._close_event.is_set():
                fleet.stop()
        return fleet

    def _update(self) -> None:
        config = self.record.next_plan
        if config is None or self._fleet is None:
            return
        new_fleet, old_fleet = self._make_next_fleet(config), self._fleet
        traffic = build_traffic_plan(self.record.deployment, config.count_instances())
        deployment = Deployment(
            traffic, old_fleet, new_fleet, self._set_share, self._find_rollback_reason, self._close_event
        )
        try:
            deployment.run()
        except (RunFailed, RollbackRequired) as error:
            return self._roll_back(deployment, new_fleet, error)
        except Exception as error:
            log.exception("endpoint %s: internal error during an update", self.record.name)
            reason = f"InternalServerError: {type(error).__name__}: {error}"
            return self._roll_back(deployment, new_fleet, RunFailed(reason))
        with self._lock:
            if self._close_event.is_set():
                return
            self._fleet, self._next_fleet, self._next_share = new_fleet, None, 0.0
            self.record.plan, self.record.next_plan = config, None
            self.save()
        _end_fleet(old_fleet)
        self._set_status(EndpointStatus.IN_SERVICE)

    def _set_share(self, share: float) -> None:
        self._next_share = share

    def _roll_back(self, deployment: Deployment, new_fleet: Fleet, error: DrydockError) -> None:
        log.warning("endpoint %s: rolling back: %s", self.record.name, error)
        self._set_status(EndpointStatus.ROLLING_BACK, str(error))
        deployment.roll_back()
        with self._lock:
            self._next_fleet, self._next_share = None, 0.0
        _end_fleet(new_fleet)
        with self._lock:
            if not self._close_event.is_set():
                self.record.next_plan = None
                self._set_status(EndpointStatus.IN_SERVICE, str(error))

    def _scale(self, old_sizes: Mapping[str, VariantSize]) -> None:
        """Start and stop instances as the configuration says; if one does not start, restore the old sizes."""
        fleet, reason = self._fleet, None
        if fleet is None:
            return
        try:
            fleet.scale()
        except RunFailed as error:
            reason = error.reason
        with self._lock:
            if reason is not None:
                set_sizes(self.record.plan.variants, old_sizes)
            self._set_status(EndpointStatus.IN_SERVICE, reason)

    def _recover(self, fleet: Fleet, *, has_interrupted_update: bool, was_in_service: bool) -> None:
        """Start the instances of the stored configuration, with retries. Then repeat an interrupted update.

        After an interrupted rollback or change of sizes, the endpoint becomes InService.
        """
        while fleet is self._fleet and not self._close_event.is_set():
            try:
                fleet.scale()
                break
            except RunFailed as error:
                log.warning("endpoint %s: cannot start its instances: %s", self.record.name, error.reason)
                self._close_event.wait(RECOVERY_PAUSE_S)
        if has_interrupted_update:
            self._update()
        elif not was_in_service:
            self.record.next_plan = None
            self._set_status(EndpointStatus.IN_SERVICE, self.record.reason)


def _end_fleet(fleet: Fleet) -> None:
    """Stop instances once the requests in progress have ended, at the latest after `TIMEOUT_S` seconds."""
    fleet.drain(TIMEOUT_S)
    fleet.stop()
