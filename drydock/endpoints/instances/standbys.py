"""Keep a standby process for each serverless variant: it has imported the model's libraries before a request comes.

A cold start takes the standby process, so that only the model must be loaded. A new standby process replaces it in the
background. The first process of a variant records which libraries its model imports. A variant whose model imports
none has no standby process.
"""

import logging
import secrets
import threading
from dataclasses import dataclass

from drydock.endpoints.instances.fleet_options import CreateInstance
from drydock.endpoints.instances.instance import Instance
from drydock.endpoints.records import Variant
from drydock.errors import RunFailed

log = logging.getLogger(__name__)

# Seconds between two checks of whether a standby process has ended.
CHECK_S = 0.5
# Seconds until a standby process is replaced that did not start, or ended before it was taken.
REPLACE_PAUSE_S = 5.0


@dataclass
class _Standby:
    """The standby process of one variant, and the names of the modules that the next standby process imports."""

    variant: Variant
    imports: bytes
    instance: Instance | None = None


class Standbys:
    """The standby processes of the variants of one fleet. Safe for several threads.

    Args:
        create_instance: Creates an instance, given its variant and the name of the instance.
    """

    def __init__(self, create_instance: CreateInstance) -> None:
        self._create_instance = create_instance
        self._condition = threading.Condition()
        self._standbys: dict[str, _Standby] = {}
        self._is_closed = False

    def keep_standby(self, instance: Instance) -> None:
        """Keep a standby process for the variant of a started instance: it imports the same libraries.

        If there is one already, the next one imports the libraries of this instance. If the libraries of the instance
        are not known, nothing changes.
        """
        imports = instance.read_imports()
        with self._condition:
            standby = self._standbys.get(instance.variant.name)
            if self._is_closed or not imports:
                return
            if standby is not None:
                standby.imports = imports
                return
            self._standbys[instance.variant.name] = standby = _Standby(instance.variant, imports)
        threading.Thread(target=self._maintain_standby, args=(standby,), name="standby", daemon=True).start()

    def take(self, variant: Variant) -> Instance | None:
        """Return the standby instance of a variant, and start another one in its place; None if there is none."""
        with self._condition:
            standby = self._standbys.get(variant.name)
            instance = standby.instance if standby else None
            if standby is None or instance is None or instance.has_ended():
                return None
            standby.instance = None
            self._condition.notify_all()
            return instance

    def count_ready(self) -> int:
        """Return how many standby processes have imported their libraries."""
        with self._condition:
            instances = [standby.instance for standby in self._standbys.values()]
        return sum(instance is not None and instance.has_imported_libraries() for instance in instances)

    def close(self) -> list[Instance]:
        """Start no more processes, and return the standby instances, which the caller stops. Idempotent."""
        with self._condition:
            self._is_closed = True
            instances = [standby.instance for standby in self._standbys.values() if standby.instance]
            self._standbys = {}
            self._condition.notify_all()
        return instances

    def _maintain_standby(self, standby: _Standby) -> None:
        """Start a standby process whenever the last one was taken or has ended."""
        while not self._is_closed:
            instance = self._create_instance(standby.variant, f"i-{secrets.token_hex(4)}")
            try:
                instance.prepare()
                instance.stand_by(standby.imports)
            except RunFailed as error:
                log.warning("variant %s has no standby process: %s", standby.variant.name, error.reason)
            if not self._wait_until_taken(standby, instance):
                instance.stop()
                with self._condition:
                    self._condition.wait_for(lambda: self._is_closed, REPLACE_PAUSE_S)

    def _wait_until_taken(self, standby: _Standby, instance: Instance) -> bool:
        """Offer a standby instance until it is taken. Return False if the caller must stop it instead."""
        with self._condition:
            if self._is_closed or not instance.is_standby:
                return False
            standby.instance = instance
            while standby.instance is instance and not self._is_closed:
                if instance.has_ended():
                    standby.instance = None
                    return False
                self._condition.wait(CHECK_S)
            return True
