"""What is made ahead comes in order, is bounded, tells its errors, and ends when it is closed."""

import threading
from collections.abc import Iterator
from itertools import count

import pytest

from pipelines.features.prefetch import prefetch


def test_items_come_in_order_and_are_made_in_one_other_thread() -> None:
    def made() -> Iterator[tuple[int, int]]:
        for number in range(50):
            yield number, threading.get_ident()

    got = list(prefetch(made(), 3))
    assert [number for number, _ in got] == list(range(50))
    assert {ident for _, ident in got} != {threading.get_ident()}


def test_no_more_are_made_than_so_many_ahead_and_none_after_the_end() -> None:
    made: list[int] = []

    def endless() -> Iterator[int]:
        for number in count():
            made.append(number)
            yield number

    items = prefetch(endless(), 3)
    assert [next(items), next(items)] == [0, 1]
    items.close()
    seen = len(made)
    assert seen <= 2 + 3
    assert list(items) == [] and len(made) == seen


def test_an_error_comes_in_its_place() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("the second")

    items = prefetch(broken(), 4)
    assert next(items) == 1
    with pytest.raises(ValueError, match="the second"):
        next(items)
