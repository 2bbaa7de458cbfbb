"""Test the order of an epoch's samples: a pure function of the seed and the epoch."""

import hashlib

import numpy as np
import pytest

from pipelines.container.torch.order import EpochOrder

SIZES = (7, 1, 30, 12, 5, 9, 20, 2)
COUNT = sum(SIZES)
STARTS = np.cumsum((0, *SIZES))


def list_samples(order, start=0, stop=COUNT):
    """Return the numbers of the samples in the order, as a reader would find them."""
    samples = []
    for selection in order.select(start, stop):
        places = np.full(selection.count, -1)
        for block, block_places in selection.blocks:
            rows = np.flatnonzero(block_places >= 0)
            places[block_places[rows]] = STARTS[block] + rows
        samples += places.tolist()
    return samples


@pytest.mark.parametrize("buffer", [0, 1, 10, 40, 1_000])
def test_each_sample_is_in_the_order_once(buffer):
    order = EpochOrder(SIZES, 3, 0, buffer)
    assert order.count == COUNT
    assert sorted(list_samples(order)) == list(range(COUNT))


def test_without_a_buffer_the_order_is_that_of_the_files():
    assert list_samples(EpochOrder(SIZES, 3, 5, 0)) == list(range(COUNT))


@pytest.mark.parametrize("buffer", [0, 10, 1_000])
def test_any_part_of_the_order_can_be_computed_on_its_own(buffer):
    order = EpochOrder(SIZES, 3, 1, buffer)
    whole = list_samples(order)
    for start in range(0, COUNT, 5):
        for stop in range(start, COUNT + 1, 7):
            assert list_samples(order, start, stop) == whole[start:stop]


def test_order_depends_on_seed_and_epoch_and_on_nothing_else():
    def list_order(seed, epoch):
        return list_samples(EpochOrder(SIZES, seed, epoch, 20))

    assert list_order(3, 1) == list_order(3, 1)
    assert len({tuple(list_order(seed, epoch)) for seed in (3, 4, 2**40 + 3) for epoch in (0, 1)}) == 6


def test_order_stays_the_same_in_later_versions():
    """A training that resumes with another version of numpy, or of Leeway, would lose samples otherwise."""
    samples = list_samples(EpochOrder(SIZES, 3, 1, 20))
    assert hashlib.sha256(str(samples).encode()).hexdigest()[:16] == "355c76cd21ec2601"


def test_a_reader_has_less_than_a_buffer_and_a_block_in_memory():
    selections = list(EpochOrder([10] * 100, 3, 0, 35).select(0, 1_000))
    assert {selection.count for selection in selections} == {40}
    assert all(len(selection.blocks) == 4 for selection in selections)


def test_blocks_without_a_selected_sample_are_not_read():
    order = EpochOrder([10] * 100, 3, 0, 1)
    (selection,) = order.select(20, 23)
    assert [np.count_nonzero(places >= 0) for _, places in selection.blocks] == [3]
