"""How moto's registries are given a backend's class that needs more than moto knows of."""

from typing import Any, TypeVar

B = TypeVar("B")


def bound(backend: type[B], *known: Any) -> type[B]:
    """Return a subclass whose constructor takes only what moto gives: the region's and the account's names.

    A class and no partial: moto 5.2.5 leaves out of its Resource Groups Tagging API whatever is none.

    Args:
        backend: Its constructor takes known, the region's name and the account's.
        known: What comes first.
    """

    def construct(self: B, region_name: str, account_id: str) -> None:
        backend.__init__(self, *known, region_name, account_id)  # type: ignore[call-arg]

    return type(backend.__name__, (backend,), {"__init__": construct, "__module__": backend.__module__})
