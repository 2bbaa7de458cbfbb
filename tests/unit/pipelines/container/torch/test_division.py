"""Test how the rest of an epoch is divided among the processes and their workers."""

import itertools

import pytest

from pipelines.container.torch.division import Division, are_valid, count_samples
from pipelines.container.torch.order import EpochOrder
from pipelines.errors import DataError

SPANS = ((0, 40), (50, 51), (60, 143))


def list_positions(spans):
    return [position for start, stop in spans for position in range(start, stop)]


def list_batches(division, rank, done=0):
    """Return the positions in each batch of a process, from its workers in turn."""
    workers = []
    for number in range(division.workers):
        worker = (done + number) % division.workers
        positions = iter(list_positions(division.get_spans(rank, worker, done)))
        sizes = division.iterate_batch_sizes(rank, worker, done)
        workers.append([list(itertools.islice(positions, size)) for size in sizes])
        assert not list(positions), "the batches of a worker have all of its samples"
    return [batch for batches in itertools.zip_longest(*workers) for batch in batches if batch is not None]


CASES = [(1, 1, 10), (2, 1, 10), (3, 2, 7), (5, 4, 8), (4, 3, 1), (2, 8, 40), (7, 1, 1_000), (124, 1, 3)]


@pytest.mark.parametrize(("processes", "workers", "batch_size"), CASES)
def test_each_sample_is_taken_once_in_the_same_number_of_steps(processes, workers, batch_size):
    division = Division(SPANS, processes, workers, batch_size)
    batches = [list_batches(division, rank) for rank in range(processes)]
    assert {len(own_batches) for own_batches in batches} == {division.steps}
    taken = [position for own_batches in batches for batch in own_batches for position in batch]
    assert sorted(taken) == list_positions(SPANS)
    for own_batches in batches:
        assert {len(batch) for batch in own_batches[:-1]} <= {batch_size}
        assert 1 <= len(own_batches[-1]) <= batch_size + 1


@pytest.mark.parametrize(("processes", "workers", "batch_size"), CASES)
def test_after_any_step_the_rest_is_what_was_not_taken(processes, workers, batch_size):
    division = Division(SPANS, processes, workers, batch_size)
    batches = [list_batches(division, rank) for rank in range(processes)]
    for done in range(division.steps + 1):
        rest = division.find_remaining_spans(done)
        not_taken = [position for own_batches in batches for batch in own_batches[done:] for position in batch]
        assert list_positions(rest) == sorted(not_taken)
        assert are_valid(rest, 143)
        for rank in range(processes):
            assert list_batches(division, rank, done) == batches[rank][done:], "the same batches as without a stop"


def test_rest_is_divided_by_other_numbers_again_and_again():
    spans, taken = SPANS, []
    for processes, workers, batch_size, steps in ((4, 2, 3, 2), (2, 3, 5, 3), (5, 1, 2, 1), (1, 4, 9, 10**6)):
        division = Division(spans, processes, workers, batch_size)
        done = min(steps, division.steps)
        for rank in range(processes):
            taken += [position for batch in list_batches(division, rank)[:done] for position in batch]
        spans = division.find_remaining_spans(done)
    assert spans == ()
    assert sorted(taken) == list_positions(SPANS)


def test_processes_read_blocks_of_their_own():
    """Only the blocks of the buffers at the edges of a part are read by two readers."""
    order = EpochOrder([10] * 400, 3, 0, 50)
    division = Division(((0, 4_000),), 4, 2, 16)
    readers = itertools.product(range(4), range(2))
    read_blocks = [
        block
        for reader in readers
        for span in division.get_spans(*reader, 0)
        for selection in order.select(*span)
        for block, _ in selection.blocks
    ]
    assert set(read_blocks) == set(range(400))
    assert len(read_blocks) <= 400 + 7 * 5, "seven edges, each in a buffer of five blocks"


def test_nothing_left_is_no_step():
    division = Division((), 3, 2, 4)
    assert (division.steps, division.find_remaining_spans(0), list_batches(division, 2)) == (0, (), [])


def test_fewer_samples_than_processes_are_refused():
    assert Division(((0, 3),), 3, 1, 4).steps == 1
    with pytest.raises(DataError, match=r"^2 sample\(s\) of the epoch are left for 3 processes\. Use fewer hosts"):
        Division(((0, 1), (5, 6)), 3, 1, 4)


@pytest.mark.parametrize(
    "spans", [((0, 144),), ((5, 5),), ((5, 4),), ((-1, 4),), ((0, 10), (9, 12)), ((20, 30), (0, 10))]
)
def test_wrong_parts_are_noticed(spans):
    assert not are_valid(spans, 143)
    assert are_valid(SPANS, 143)
    assert count_samples(SPANS) == 124
