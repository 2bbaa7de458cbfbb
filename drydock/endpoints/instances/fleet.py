"""Start the instances of one configuration of an endpoint, choose one for each request, and replace those that end.

An instance of a serverless variant answers one request at a time. If no instance is idle, a request starts one more (a
cold start), unless the variant has MaxConcurrency instances, or one for each core, already. If there is a standby
process, it becomes this instance. An instance that is idle for long is stopped.
"""

import contextlib
import itertools
import logging
import math
import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from drydock.endpoints.instances.fleet_options import FleetOptions, FleetStopped, VariantBusy
from drydock.endpoints.instances.instance import Instance
from drydock.endpoints.instances.standbys import Standbys
from drydock.endpoints.records import ServedConfig, Variant
from drydock.errors import RunFailed

log = logging.getLogger(__name__)

# Seconds before each restart of an instance whose process ends repeatedly; the last value is used from then on.
RESTART_PAUSES_S = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
# After this many seconds, an instance is regarded as healthy: its next restart has no pause.
HEALTHY_AFTER_S = 60.0
# Seconds between two checks of an instance's process, and of whether an instance can take a waiting request.
CHECK_S = 0.1
# Longest wait for the last requests of an instance that is not needed any more, seconds.
DRAIN_S = 60.0
# Tolerance before rounding up: 9 * (1 - 2 / 3) is a little more than 3.
ROUNDING_TOLERANCE = 1e-9
# Niceness of instances while they load their models, if no request waits for them: instances that answer go first.
DEPLOYMENT_NICENESS = 10


class Fleet:
    """The instances of all variants of one configuration. Safe for several threads.

    Args:
        config: The configuration.
        options: How its instances are started and stopped.
    """

    def __init__(self, config: ServedConfig, options: FleetOptions) -> None:
        self.config, self._options = config, options
        self._condition = threading.Condition()
        self._scale_lock = threading.Lock()
        self._prepare_lock = threading.Lock()
        """Held to prepare one instance at a time: threads that prepare instances hold the GIL and delay requests."""
        self._instances: list[Instance] = []
        self._starting_instances: list[Instance] = []
        self._turn = itertools.count()  # ready instances get requests in turn
        # Numbers of requests in progress, in all and by variant, and of cold starts in progress, by variant.
        self._requests, self._variant_requests, self._cold_starts = 0, Counter[str](), Counter[str]()
        self._stop_event = threading.Event()
        self.standbys = Standbys(options.create_instance)

    def scale(self, share: float = 1.0, *, starts_serverless: bool = False) -> None:
        """Start and stop instances until each variant has its configured number, or a share of it, rounded up.

        Args:
            share: The share, more than 0: a variant that has instances in the configuration gets at least one.
            starts_serverless: Whether each serverless variant gets an instance now, which shows that its model loads.

        Raises:
            RunFailed: An instance did not start: the instances that ran before do not change. Or the fleet was stopped.
        """
        with self._scale_lock:
            surplus_instances, missing_variants = [], []
            for variant in self.config.variants:
                instances = [instance for instance in self._instances if instance.variant is variant]
                count = math.ceil(variant.count * share - ROUNDING_TOLERANCE)
                count = max(count, 1) if variant.serverless and starts_serverless else count
                # `_watch` stops idle serverless instances.
                surplus_instances += [] if variant.serverless else instances[count:]
                missing_variants += [variant] * (count - len(instances))
            self._start_instances(missing_variants, DEPLOYMENT_NICENESS)
            with self._condition:
                self._instances = [instance for instance in self._instances if instance not in surplus_instances]
                self._condition.wait_for(lambda: not any(instance.requests for instance in surplus_instances), DRAIN_S)
            _stop_all_instances(surplus_instances)

    def count_ready(self, variant: Variant) -> int:
        """Return how many instances of a variant are ready to answer requests."""
        with self._condition:
            return sum(instance.variant is variant and instance.pool is not None for instance in self._instances)

    def list_instances(self) -> list[Instance]:
        """Return the instances that were started."""
        with self._condition:
            return list(self._instances)

    def choose_variant(self) -> Variant:
        """Return a production variant at random, by weight."""
        variants = self.config.production_variants
        return random.choices(variants, [variant.weight for variant in variants])[0]  # noqa: S311  no secret

    @contextlib.contextmanager
    def count_request(self) -> Iterator[None]:
        """Count a request during a block: `drain` waits until the block ends.

        Raises:
            FleetStopped: The instances were stopped already. Another fleet of the endpoint may answer.
        """
        with self._condition:
            if self._stop_event.is_set():
                raise FleetStopped("the instances were stopped")
            self._requests += 1
        try:
            yield
        finally:
            with self._condition:
                self._requests -= 1
                self._condition.notify_all()

    @contextlib.contextmanager
    def limit_concurrency(self, variant: Variant) -> Iterator[None]:
        """Count a request to a variant during a block, and refuse it if the variant has too many.

        Raises:
            VariantBusy: A serverless variant answers MaxConcurrency requests already.
        """
        with self._condition:
            if self._variant_requests[variant.name] >= variant.max_concurrency:
                raise VariantBusy(f"variant {variant.name} answers {variant.max_concurrency} requests already")
            self._variant_requests[variant.name] += 1
        try:
            yield
        finally:
            with self._condition:
                self._variant_requests[variant.name] -= 1

    @contextlib.contextmanager
    def use_instance(self, variant: Variant, deadline: float) -> Iterator[Instance | None]:
        """Yield a ready instance of a variant for one request; yield None if none is ready before the deadline.

        Args:
            variant: The variant.
            deadline: When to give up, in seconds of `time.monotonic`.

        Raises:
            FleetStopped: The instances were stopped.
            RunFailed: An instance of a serverless variant did not start.
        """
        instance = self._take_instance(variant, deadline)
        try:
            yield instance
        finally:
            if instance is not None:
                with self._condition:
                    instance.requests, instance.used_at = instance.requests - 1, time.monotonic()
                    self._condition.notify_all()

    def _take_instance(self, variant: Variant, deadline: float) -> Instance | None:
        cold_start: Future[None] | None = None
        with self._condition:
            while not self._stop_event.is_set():
                if ready := self._list_ready(variant):
                    instance = ready[next(self._turn) % len(ready)]
                    instance.requests += 1
                    return instance
                wait_s = deadline - time.monotonic()
                if wait_s <= 0:
                    return None
                cold_start = cold_start or self._begin_cold_start(variant)
                if cold_start is not None and cold_start.done():
                    cold_start.result()  # raises the error if the start has failed
                self._condition.wait(min(wait_s, CHECK_S))
        raise FleetStopped("the instances were stopped")

    def _list_ready(self, variant: Variant) -> list[Instance]:
        """Return the instances of a variant that can take a request now."""
        ready = [item for item in self._instances if item.variant is variant and item.pool is not None]
        return [item for item in ready if item.requests == 0] if variant.serverless else ready

    def _begin_cold_start(self, variant: Variant) -> Future[None] | None:
        """Start one more instance in the background, and return the future of its start.

        Return None if the variant is not serverless, or may have no more instances.
        """
        if not variant.serverless:
            return None
        count = sum(instance.variant is variant for instance in self._instances) + self._cold_starts[variant.name]
        if count >= min(variant.max_concurrency, self._options.max_processes):
            return None
        self._cold_starts[variant.name] += 1
        future: Future[None] = Future()
        threading.Thread(target=self._run_cold_start, args=(variant, future), name="cold start", daemon=True).start()
        return future

    def _run_cold_start(self, variant: Variant, future: "Future[None]") -> None:
        started_at = time.monotonic()
        try:
            self._start_instances([variant])
            self._options.on_cold_start(variant.name, time.monotonic() - started_at)
            future.set_result(None)
        except Exception as error:  # the request that waits for the instance gets the error
            future.set_exception(error)
        finally:
            with self._condition:
                self._cold_starts[variant.name] -= 1
                self._condition.notify_all()

    def drain(self, timeout_s: float) -> None:
        """Wait until no request is in progress, at most `timeout_s` seconds."""
        with self._condition:
            self._condition.wait_for(lambda: self._requests == 0, timeout_s)

    def stop(self) -> None:
        """Stop all instances, also those that are starting. Idempotent."""
        with self._condition:
            self._stop_event.set()
            instances = self._instances + self._starting_instances
            self._instances, self._starting_instances = [], []
            self._condition.notify_all()
        _stop_all_instances([*instances, *self.standbys.close()])

    def _start_instances(self, variants: Sequence[Variant], niceness: int = 0) -> None:
        """Start one instance for each item of `variants`, in parallel. If one does not start, stop all of these."""
        if not variants:
            return
        instances = [self.standbys.take(variant) or self._create_instance(variant) for variant in variants]
        with self._condition:
            if self._stop_event.is_set():
                raise RunFailed("The deployment was stopped.")
            self._starting_instances = self._starting_instances + instances
        with ThreadPoolExecutor(len(instances)) as threads:
            futures = [threads.submit(self._prepare_and_start, instance, niceness) for instance in instances]
        errors = [error for future in futures if (error := future.exception())]
        with self._condition:
            self._starting_instances = [instance for instance in self._starting_instances if instance not in instances]
            is_stopped = self._stop_event.is_set()
            if not errors and not is_stopped:
                self._instances = self._instances + instances
                self._condition.notify_all()
        if errors or is_stopped:
            _stop_all_instances(instances)
            raise errors[0] if errors else RunFailed("The deployment was stopped.")
        for instance in instances:
            if instance.variant.serverless:
                self.standbys.keep_standby(instance)
            threading.Thread(target=self._watch, args=(instance,), name=instance.name, daemon=True).start()

    def _prepare_and_start(self, instance: Instance, niceness: int) -> None:
        if not instance.is_standby:
            with self._prepare_lock:
                instance.prepare()
        instance.start(niceness)

    def _create_instance(self, variant: Variant) -> Instance:
        return self._options.create_instance(variant, f"i-{secrets.token_hex(4)}")

    def _watch(self, instance: Instance) -> None:
        """Start an instance again whenever its process has ended, until the instance is stopped, or idle for long."""
        attempt, started_at = 0, time.monotonic()
        while not self._stop_event.wait(CHECK_S) and instance in self._instances:
            if self._remove_instance_if_idle(instance):
                return instance.stop()
            if not instance.has_ended():
                continue
            attempt = 0 if time.monotonic() - started_at > HEALTHY_AFTER_S else attempt
            log.warning("instance %s of variant %s has ended: starting it again", instance.name, instance.variant.name)
            instance.pool = None
            self._options.on_restart()
            if self._stop_event.wait(RESTART_PAUSES_S[min(attempt, len(RESTART_PAUSES_S) - 1)]):
                return
            attempt += 1
            started_at = time.monotonic()
            with contextlib.suppress(RunFailed):  # the next iteration tries again
                instance.restart(DEPLOYMENT_NICENESS if self.count_ready(instance.variant) else 0)
            with self._condition:
                self._condition.notify_all()

    def _remove_instance_if_idle(self, instance: Instance) -> bool:
        """Remove an instance that its serverless variant does not need any more. Return whether it was removed."""
        variant = instance.variant
        with self._condition:
            is_idle = instance.requests == 0 and time.monotonic() - instance.used_at > self._options.idle_s
            if not variant.serverless or not is_idle:
                return False
            other_instances = [item for item in self._instances if item is not instance]
            if sum(item.variant is variant for item in other_instances) < variant.count:
                return False
            self._instances = other_instances
            return True


def _stop_all_instances(instances: Sequence[Instance]) -> None:
    """Stop instances in parallel, because an instance that does not end at SIGTERM takes seconds."""
    threads = [threading.Thread(target=instance.stop, daemon=True) for instance in instances]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
