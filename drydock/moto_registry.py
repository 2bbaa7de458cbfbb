"""Create backend classes for moto's registries. moto calls their constructors with the region and the account only."""

from typing import Any, TypeVar

B = TypeVar("B")


def bind_arguments(backend: type[B], *arguments: Any) -> type[B]:
    """Return a subclass of a backend whose constructor takes only what moto passes: the region and the account.

    The result is a class, not a functools.partial: the Resource Groups Tagging API of moto 5.2.5 ignores a backend that
    is not a class.

    A deep copy of a backend is the backend itself. When a client publishes a version of a Lambda function, moto 5.2.5
    copies the function with all objects that it refers to, and the server's storage cannot be copied.

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
