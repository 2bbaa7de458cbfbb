"""Let moto's /moto-api/reset delete everything that is stored.

moto 5.2.5 resets only the backends that a request has used since the server's start. What an earlier server has stored
would stay, and so would spot prices, which drydock's own request sets without moto's EC2.
"""

from collections.abc import Callable, Iterable
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.logs.models import logs_backends
from moto.sagemaker.models import sagemaker_backends

from drydock.ec2.spot_prices import SpotPrices
from drydock.store import Store
from drydock.wsgi import WsgiApplication

PATH = "/moto-api/reset"
_TABLES = ("resources", "jobs", "metric_data", "host_metrics", "log_groups", "feature_records")
"""Tables whose rows have an account and a region. S3 and Application Auto Scaling load what is stored at the start."""


class Reset:
    """WSGI middleware: before moto resets its backends, create those that have stored resources.

    Args:
        store: The server's storage.
        spot_prices: The spot prices of all regions.
        application: Answers all requests.
    """

    def __init__(self, store: Store, spot_prices: SpotPrices, application: WsgiApplication) -> None:
        self._store, self._spot_prices, self._application = store, spot_prices, application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        if environ.get("PATH_INFO") == PATH and environ.get("REQUEST_METHOD") == "POST":
            self._create_backends()
            self._spot_prices.delete_all()
        return self._application(environ, start_response)

    def _create_backends(self) -> None:
        tables = {name for (name,) in self._store.query("SELECT name FROM sqlite_master WHERE type = 'table'")}
        # A service creates its tables at its first use.
        selects = [f"SELECT account, region FROM {table}" for table in _TABLES if table in tables]  # noqa: S608 - constants
        for account, region in self._store.query(" UNION ".join(selects)):
            for backends in (sagemaker_backends, cloudwatch_backends, logs_backends):
                backends[account][region]  # moto creates a backend at the first access
