"""Let moto's /moto-api/reset delete everything that is stored.

moto 5.2.5 resets only the backends that a request has used since the server's start. What other backends have stored
would stay, and so would spot prices: a request of drydock's own API sets them, without moto's EC2.
"""

from collections.abc import Callable, Iterable
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.logs.models import logs_backends
from moto.sagemaker.models import sagemaker_backends

from drydock.batch.queues import BatchQueues
from drydock.ec2.spot_prices import SpotPrices
from drydock.resources import Owner
from drydock.store import Store
from drydock.wsgi import WsgiApplication

PATH = "/moto-api/reset"
_TABLES = ("resources", "jobs", "metric_data", "host_metrics", "log_groups", "feature_records")
"""Tables whose rows have the account and the region of what is stored. S3's tables are not needed: S3 loads its buckets
when the server starts, so moto resets it."""


class Reset:
    """WSGI middleware: before moto resets its backends, create those that have stored resources.

    The queues of AWS Batch are deleted first, because they would submit more jobs. Their scheduler uses moto's backends
    while it holds the queues' lock. moto's reset locks all backends. If the reset then waited for the queues' lock,
    both would wait forever.

    Args:
        store: The server's storage.
        spot_prices: The spot prices of all regions.
        batch: The queues of AWS Batch of all accounts and regions.
        application: Answers all requests.
    """

    def __init__(self, store: Store, spot_prices: SpotPrices, batch: BatchQueues, application: WsgiApplication) -> None:
        self._store, self._spot_prices, self._batch, self._application = store, spot_prices, batch, application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        if environ.get("PATH_INFO") == PATH and environ.get("REQUEST_METHOD") == "POST":
            for owner in self._list_owners():
                self._batch.delete_all(owner)
                # moto creates a backend at the first access. A backend of Application Auto Scaling that has stored
                # targets exists since the server's start.
                for backends in (sagemaker_backends, cloudwatch_backends, logs_backends):
                    backends[owner.account_id][owner.region]
            self._spot_prices.delete_all()
        return self._application(environ, start_response)

    def _list_owners(self) -> list[Owner]:
        tables = {name for (name,) in self._store.query("SELECT name FROM sqlite_master WHERE type = 'table'")}
        # A service creates its tables at its first use.
        selects = [f"SELECT account, region FROM {table}" for table in _TABLES if table in tables]  # noqa: S608 - constants
        return [Owner(account, region) for account, region in self._store.query(" UNION ".join(selects))]
