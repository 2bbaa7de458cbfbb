"""Backend classes for moto's registries whose constructors need more arguments than moto passes."""

from typing import Any, TypeVar

B = TypeVar("B")


def bind_arguments(backend: type[B], *arguments: Any) -> type[B]:
    """Return a subclass of a backend whose constructor takes only what moto passes: the region and the account.

    The result is a class, not a functools.partial: moto 5.2.5 ignores a backend that is not a class in its Resource
    Groups Tagging API.

    A deep copy of a backend is the backend itself: moto's Lambda 5.2.5 copies a function that it publishes, with all
    that the function refers to, and a store cannot be copied.

    Args:
        backend: The backend's class. Its constructor takes the arguments, then the region's name and the account's id.
        arguments: The arguments to pass first.
    """

    def construct(self: B, region_name: str, account_id: str) -> None:
        backend.__init__(self, *arguments, region_name, account_id)  # type: ignore[call-arg]

    def return_itself(self: B, _: dict[int, Any]) -> B:
        return self

    members = {"__init__": construct, "__deepcopy__": return_itself, "__module__": backend.__module__}
    return type(backend.__name__, (backend,), members)
