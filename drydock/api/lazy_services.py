"""Find the service of a request, and load services of moto at their first request.

moto 5.2.5's EC2 loads the list of all instance types, and its Application Auto Scaling imports EC2. The import of
EC2 takes half as long as the rest of drydock's start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

MAX_HOSTS = 1_000
"""Number of hosts whose service a server remembers. A client chooses the region, and so the host."""


class MotoApplication(DomainDispatcherApplication):
    """moto's server, which finds the service of each host once.

    moto 5.2.5 lists the folders of its package for each request: a millisecond and more of CPU time.

    Args:
        create_app: Returns the application of a service of moto.
    """

    def __init__(self, create_app: Callable[[Any], Any]) -> None:
        super().__init__(create_app)
        self.get_backend_for_host = lru_cache(MAX_HOSTS)(super().get_backend_for_host)


class LazyServices:
    """Loads services of moto at their first request.

    Args:
        installers: Maps moto's name of a service to the function that imports and installs its backend.
    """

    def __init__(self, installers: Mapping[str, Callable[[], None]]) -> None:
        self._installers, self._lock = dict(installers), threading.Lock()

    def create_app(self, service: Any) -> Any:
        """Return moto's application of a service, for the first request to this service."""
        with self._lock:
            if install := self._installers.get(service):
                install()
                # An installer that failed is kept, so the next request calls it again.
                self._installers.pop(service)
        return create_backend_app(service)
