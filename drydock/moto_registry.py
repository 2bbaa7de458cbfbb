"""Backend classes for moto's registries whose constructors need more arguments than moto passes."""

from typing import Any, TypeVar

B = TypeVar("B")


def bind_arguments(backend: type[B], *arguments: Any) -> type[B]:
    """Return a subclass of a backend whose constructor takes only what moto passes: the region and the account.

    The result is a class, not a functools.partial: moto 5.2.5 ignores a backend that is not a class in its Resource
    Groups Tagging API.

    Args:
        backend: The backend's class. Its constructor takes the arguments, then the region's name and the account's id.
        arguments: The arguments to pass first.
    """

    def construct(self: B, region_name: str, account_id: str) -> None:
        backend.__init__(self, *arguments, region_name, account_id)  # type: ignore[call-arg]

    return type(backend.__name__, (backend,), {"__init__": construct, "__module__": backend.__module__})
