"""Work that goes on in another thread while its last results are used."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def prefetch(items: Iterable[T], depth: int) -> Generator[T, None, None]:
    """The items in their order, the next `depth` of them made in one other thread.

    Close it: then nothing is made any more when that returns. What `items` raises comes out in its place.
    """
    source, end = iter(items), object()
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as pool:
        waiting = deque(pool.submit(next, source, end) for _ in range(depth))
        try:
            while (item := waiting.popleft().result()) is not end:
                waiting.append(pool.submit(next, source, end))
                yield item  # type: ignore[misc]
        finally:
            for one in waiting:
                one.cancel()
