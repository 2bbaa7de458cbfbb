"""Compute the next items of an iterable in another thread while the caller uses the current item."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def prefetch(items: Iterable[T], depth: int) -> Generator[T, None, None]:
    """Yield the items in their order; another thread computes up to `depth` items in advance.

    The caller must close the generator. After `close` returns, no more items are computed. If `items` raises an error,
    this generator raises it after the items before it.
    """
    iterator, end_mark = iter(items), object()
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as pool:
        pending_futures = deque(pool.submit(next, iterator, end_mark) for _ in range(depth))
        try:
            while (item := pending_futures.popleft().result()) is not end_mark:
                pending_futures.append(pool.submit(next, iterator, end_mark))
                yield item  # type: ignore[misc]
        finally:
            for future in pending_futures:
                future.cancel()
