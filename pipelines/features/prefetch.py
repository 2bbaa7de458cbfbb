"""Compute the next items of an iterable in another thread while the last ones are used."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def prefetch(items: Iterable[T], depth: int) -> Generator[T, None, None]:
    """Yield the items in their order; another thread computes the next `depth` of them.

    Close the generator: no item is computed any more when that returns. An error of `items` is raised in its place.
    """
    source, end = iter(items), object()
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as pool:
        pending = deque(pool.submit(next, source, end) for _ in range(depth))
        try:
            while (item := pending.popleft().result()) is not end:
                pending.append(pool.submit(next, source, end))
                yield item  # type: ignore[misc]
        finally:
            for future in pending:
                future.cancel()
