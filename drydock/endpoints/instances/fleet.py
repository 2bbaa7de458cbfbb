"""The instances of one plan of an endpoint: start them together, choose one for a request, replace those that end."""

import contextlib
import itertools
import logging
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from drydock.endpoints.instances.instance import Instance
from drydock.endpoints.records import Plan, Variant
from drydock.errors import DrydockError, JobFailed

log = logging.getLogger(__name__)

# Seconds until the next start of an instance whose process ends again and again; the last value is repeated.
RESTART_PAUSES_S = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
# An instance that has run for this long is healthy again.
HEALTHY_AFTER_S = 60.0
CHECK_S = 0.1

CreateInstance = Callable[[Variant, str], Instance]


class FleetStopped(DrydockError):
    """The instances were stopped, so they answer no request any more."""


class Fleet:
    """The instances of all variants of one plan. Safe for several threads.

    Args:
        plan: The plan.
        create_instance: Creates an instance of a variant, given its name.
        on_restart: Called after an instance's process has ended.
    """

    def __init__(self, plan: Plan, create_instance: CreateInstance, on_restart: Callable[[], None]) -> None:
        self.plan = plan
        self._create_instance, self._on_restart = create_instance, on_restart
        self._condition = threading.Condition()
        self._scale_lock = threading.Lock()
        self._instances: list[Instance] = []
        self._starting: list[Instance] = []
        self._turn = itertools.count()
        self._requests = 0
        self._stopped = threading.Event()

    def scale(self) -> None:
        """Start and stop instances until each variant has the number that the plan says.

        Raises:
            JobFailed: An instance did not start. Those that answered before are not changed.
        """
        with self._scale_lock:
            surplus, missing = [], []
            for variant in self.plan.variants:
                instances = [instance for instance in self._instances if instance.variant is variant]
                surplus += instances[variant.count :]
                missing += [variant] * (variant.count - len(instances))
            self._start_instances(missing)
            with self._condition:
                self._instances = [instance for instance in self._instances if instance not in surplus]
            _stop_all(surplus)

    def count_ready(self, variant: Variant) -> int:
        """Return how many instances of a variant answer requests now."""
        with self._condition:
            return sum(instance.variant is variant and instance.pool is not None for instance in self._instances)

    def choose_variant(self) -> Variant:
        """Return a production variant at random, by weight."""
        variants = self.plan.production_variants
        return random.choices(variants, [variant.weight for variant in variants])[0]  # noqa: S311  no secret

    @contextlib.contextmanager
    def count_request(self) -> Iterator[None]:
        """Count a request during a block: `drain` waits for its end.

        Raises:
            FleetStopped: The instances were stopped already. Another fleet of the endpoint may answer.
        """
        with self._condition:
            if self._stopped.is_set():
                raise FleetStopped("the instances were stopped")
            self._requests += 1
        try:
            yield
        finally:
            with self._condition:
                self._requests -= 1
                self._condition.notify_all()

    def wait_for_instance(self, variant: Variant, deadline: float) -> Instance | None:
        """Return an instance of a variant that answers requests, each in its turn; None if there is none in time.

        Args:
            variant: The variant.
            deadline: When to give up, as `time.monotonic` counts.

        Raises:
            FleetStopped: The instances were stopped.
        """
        with self._condition:
            while not self._stopped.is_set():
                ready = [item for item in self._instances if item.variant is variant and item.pool is not None]
                if ready:
                    return ready[next(self._turn) % len(ready)]
                wait_s = deadline - time.monotonic()
                if wait_s <= 0:
                    return None
                self._condition.wait(min(wait_s, CHECK_S))
        raise FleetStopped("the instances were stopped")

    def drain(self, timeout_s: float) -> None:
        """Wait until no request is in progress, at most `timeout_s` seconds."""
        with self._condition:
            self._condition.wait_for(lambda: self._requests == 0, timeout_s)

    def stop(self) -> None:
        """Stop all instances, also those that are starting. Idempotent."""
        with self._condition:
            self._stopped.set()
            instances = self._instances + self._starting
            self._instances, self._starting = [], []
            self._condition.notify_all()
        _stop_all(instances)

    def _start_instances(self, variants: Sequence[Variant]) -> None:
        if not variants:
            return
        instances = [self._create_instance(variant, f"i-{secrets.token_hex(4)}") for variant in variants]
        with self._condition:
            if self._stopped.is_set():
                raise JobFailed("The deployment was stopped.")
            self._starting = self._starting + instances
        with ThreadPoolExecutor(len(instances)) as threads:
            futures = [threads.submit(_prepare_and_start, instance) for instance in instances]
        errors = [error for future in futures if (error := future.exception())]
        with self._condition:
            self._starting = [instance for instance in self._starting if instance not in instances]
            is_stopped = self._stopped.is_set()
            if not errors and not is_stopped:
                self._instances = self._instances + instances
                self._condition.notify_all()
        if errors or is_stopped:
            _stop_all(instances)
            raise errors[0] if errors else JobFailed("The deployment was stopped.")
        for instance in instances:
            threading.Thread(target=self._watch, args=(instance,), name=instance.name, daemon=True).start()

    def _watch(self, instance: Instance) -> None:
        """Start an instance again whenever its process has ended, until the instance is stopped."""
        attempt, started_at = 0, time.monotonic()
        while not self._stopped.wait(CHECK_S) and instance in self._instances:
            if not instance.has_ended():
                continue
            attempt = 0 if time.monotonic() - started_at > HEALTHY_AFTER_S else attempt
            log.warning("instance %s of variant %s has ended: starting it again", instance.name, instance.variant.name)
            instance.pool = None
            self._on_restart()
            if self._stopped.wait(RESTART_PAUSES_S[min(attempt, len(RESTART_PAUSES_S) - 1)]):
                return
            attempt += 1
            started_at = time.monotonic()
            with contextlib.suppress(JobFailed):  # the next round tries it again
                instance.restart()
            with self._condition:
                self._condition.notify_all()


def _stop_all(instances: Sequence[Instance]) -> None:
    """Stop instances at the same time: one that does not end takes seconds."""
    threads = [threading.Thread(target=instance.stop, daemon=True) for instance in instances]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _prepare_and_start(instance: Instance) -> None:
    instance.prepare()
    instance.start()
