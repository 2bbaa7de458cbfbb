"""Load services of moto at their first request.

moto 5.2.5's EC2, which its Application Auto Scaling imports, too, has the list of all instance types. Its import takes
as long as half of the rest of drydock's start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from moto.moto_server.werkzeug_app import create_backend_app


class FirstUse:
    """The services that are loaded when they are first used.

    Args:
        installers: moto's name of a service to the function that imports and installs its backend.
    """

    def __init__(self, installers: Mapping[str, Callable[[], None]]) -> None:
        self._installers, self._lock = dict(installers), threading.Lock()

    def create_app(self, service: Any) -> Any:
        """Return moto's application of a service, for the first request to this service."""
        with self._lock:
            if install := self._installers.get(service):
                install()
                # Only now, so that another request waits, and an installation that failed is repeated.
                self._installers.pop(service)
        return create_backend_app(service)
