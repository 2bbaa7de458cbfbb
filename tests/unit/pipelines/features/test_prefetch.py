"""Test that prefetched items keep their order, that their number is bounded, and that the reader gets the errors."""

import threading
from collections.abc import Iterator
from itertools import count

import pytest

from pipelines.features.prefetch import prefetch


def test_items_come_in_order_from_another_thread() -> None:
    def yield_threads() -> Iterator[tuple[int, int]]:
        for number in range(50):
            yield number, threading.get_ident()

    items = list(prefetch(yield_threads(), 3))
    assert [number for number, _ in items] == list(range(50))
    assert {ident for _, ident in items} != {threading.get_ident()}


def test_only_a_few_items_are_prefetched_and_none_after_close() -> None:
    numbers: list[int] = []

    def count_up() -> Iterator[int]:
        for number in count():
            numbers.append(number)
            yield number

    items = prefetch(count_up(), 3)
    assert [next(items), next(items)] == [0, 1]
    items.close()
    length = len(numbers)
    assert length <= 2 + 3
    assert list(items) == [] and len(numbers) == length


def test_an_error_is_raised_after_the_items_before_it() -> None:
    def fail_at_second() -> Iterator[int]:
        yield 1
        raise ValueError("the second")

    items = prefetch(fail_at_second(), 4)
    assert next(items) == 1
    with pytest.raises(ValueError, match="the second"):
        next(items)
