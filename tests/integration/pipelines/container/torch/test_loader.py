"""Test that each sample is loaded once an epoch, in a reproducible order, and from any position on."""

import itertools
import json
import math

import pytest

from tests.integration.pipelines.container.torch.conftest import REASON

pytest.importorskip("torch", reason=REASON)
import torch

from pipelines.container.torch.loader import Loader
from pipelines.errors import DataError, RetryableError

BUFFER = 50


def make_loaders(open_source, processes, workers, batch_size=16, **options):
    source = open_source()
    return [
        Loader(
            source,
            batch_size,
            **{"seed": 5, "buffer": BUFFER, **options},
            rank=rank,
            processes=processes,
            workers=workers,
        )
        for rank in range(processes)
    ]


def load(loader, steps=None):
    """Return the ids in each of the next batches, at most `steps` of them."""
    batches = []
    for batch in loader:
        batches.append(batch["id"].tolist())
        if len(batches) == steps:
            break
    return batches


def join(batches):
    return [sample for batch in batches for sample in batch]


def list_all(open_source):
    return list(range(sum(open_source().sizes)))


@pytest.mark.parametrize(("processes", "workers"), [(1, 0), (1, 2), (3, 0), (2, 1), (7, 2)])
def test_each_sample_is_loaded_once_an_epoch(open_source, processes, workers):
    loaders = make_loaders(open_source, processes, workers)
    for epoch in range(2):
        steps = loaders[0].steps_left
        batches = [load(loader) for loader in loaders]
        assert sorted(join(join(batches))) == list_all(open_source)
        assert {len(own_batches) for own_batches in batches} == {steps}
        assert {loader.epoch for loader in loaders} == {epoch + 1}


@pytest.mark.parametrize("workers", [0, 2])
def test_order_is_drawn_from_the_seed_and_the_epoch(open_source, workers):
    def load_epochs(**options):
        (loader,) = make_loaders(open_source, 1, workers, **options)
        return [load(loader), load(loader)]

    first, second = load_epochs()
    assert load_epochs() == [first, second]
    assert first != second
    assert load_epochs(seed=6)[0] != first
    assert join(load_epochs(shuffle=False)[0]) == list_all(open_source) or workers
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    load_epochs()
    assert torch.rand(1) == expected, "the loader does not change the numbers that the training draws"


def test_samples_of_a_buffer_are_mixed_and_not_only_the_blocks(open_source):
    (batch, *_) = load(make_loaders(open_source, 1, 0, batch_size=30)[0])
    assert sum(right - left == 1 for left, right in itertools.pairwise(batch)) < 5
    assert max(batch) - min(batch) > 40, "from more than one block"


@pytest.mark.parametrize(("processes", "workers"), [(1, 0), (2, 2), (3, 1)])
def test_resumed_training_has_the_batches_that_it_would_have_had(open_source, processes, workers):
    whole = [load(loader) + load(loader) for loader in make_loaders(open_source, processes, workers)]
    loaders = make_loaders(open_source, processes, workers)
    for loader in loaders:
        load(loader, 4)
    states = [json.loads(json.dumps(loader.state_dict())) for loader in loaders]
    assert states == states[:1] * processes, "the position is the same on all processes"
    assert states[0]["samples_done"] == 4 * 16 * processes
    for rank, loader in enumerate(make_loaders(open_source, processes, workers)):
        loader.load_state_dict(states[0])
        assert loader.steps_left == loaders[rank].steps_left > 0
        assert load(loader) + load(loader) == whole[rank][4:]
        rest = loaders[rank].steps_left
        assert load(loaders[rank]) == whole[rank][4 : 4 + rest], "a loop that was left continues, too"


def test_other_numbers_of_processes_resume_again_and_again(open_source):
    """A position between two batches, the numbers of processes, workers and the batch size change at each restart."""
    state, taken = None, []
    for processes, workers, batch_size, steps in ((2, 0, 16, 3), (4, 2, 8, 2), (1, 1, 32, 2), (3, 0, 5, None)):
        loaders = make_loaders(open_source, processes, workers, batch_size)
        for loader in loaders:
            if state:
                loader.load_state_dict(state)
            taken += join(load(loader, steps))
        state = loaders[-1].state_dict()
    assert sorted(taken) == list_all(open_source)
    assert [loader.epoch for loader in loaders] == [1, 1, 1]


def test_position_after_the_last_batch_is_the_end_of_the_epoch(open_source):
    (loader,) = make_loaders(open_source, 1, 0)
    states = [loader.state_dict() for _ in loader]
    (resumed,) = make_loaders(open_source, 1, 0)
    resumed.load_state_dict(states[-1])
    assert (resumed.epoch, resumed.steps_left, load(resumed), resumed.epoch) == (0, 0, [], 1)
    assert load(resumed) == load(loader), "both are in the second epoch"


@pytest.mark.parametrize(
    ("options", "change", "text"),
    [
        ({"seed": 6}, {}, "other data, another seed or another buffer"),
        ({"buffer": 51}, {}, "other data, another seed or another buffer"),
        ({}, {"version": 2}, "another version"),
        ({}, {"spans": [[0, 10**6]]}, "no position of the loader"),
        ({"seed": 6}, {"spans": [[0, 10**6]]}, "other data, another seed or another buffer"),
        ({}, {"spans": None}, "no position of the loader"),
        ({}, {"division": [1]}, "no position of the loader"),
        ({}, {"division": [0, 1, 4]}, "no position of the loader"),
        ({}, {"division": [1, 1, 0]}, "no position of the loader"),
        ({}, {"steps": -1}, "no position of the loader"),
        ({}, {"steps": 10_000}, "no position of the loader"),
        ({}, {"steps": math.inf}, "no position of the loader"),
        ({}, {"epoch": -1}, "no position of the loader"),
        ({}, {"epoch": 2**40}, "no position of the loader"),
    ],
)
def test_wrong_position_is_refused(open_source, options, change, text):
    (loader,) = make_loaders(open_source, 1, 0)
    load(loader, 1)
    (other,) = make_loaders(open_source, 1, 0, **options)
    with pytest.raises(DataError, match=text) as caught:
        other.load_state_dict({**loader.state_dict(), **change})
    assert "\n" not in str(caught.value)
    assert other.epoch == 0 and other.steps_left


def test_more_processes_than_parts_are_refused(open_source):
    count = open_source().part_count
    assert len(make_loaders(open_source, count, 0)) == count
    with pytest.raises(DataError, match=rf"has {count} .*, for {count + 1} processes .* use fewer hosts") as caught:
        make_loaders(open_source, count + 1, 0)
    assert "\n" not in str(caught.value)


def test_fewer_samples_than_processes_are_refused(open_source):
    count = len(list_all(open_source))
    (loader,) = make_loaders(open_source, 1, 0, batch_size=count - 2)
    load(loader, 1)
    with pytest.raises(DataError, match=r"2 sample\(s\) of the epoch are left for 3 processes"):
        make_loaders(open_source, 3, 0)[0].load_state_dict(loader.state_dict())


@pytest.mark.parametrize("options", [{"rank": 2, "processes": 2}, {"workers": -1}, {"seed": -1}, {"prefetch": 0}])
def test_arguments_out_of_range_are_refused(open_source, options):
    with pytest.raises(ValueError, match="at least"):
        Loader(open_source(), 16, **options)


def test_killed_worker_is_one_line(rows, monkeypatch):
    import os
    import signal

    from pipelines.container.torch import parquet_rows

    convert = parquet_rows.ParquetRows._convert

    def convert_or_die(*arguments):
        if torch.utils.data.get_worker_info():
            os.kill(os.getpid(), signal.SIGKILL)
        return convert(*arguments)

    monkeypatch.setattr(parquet_rows.ParquetRows, "_convert", convert_or_die)
    source = parquet_rows.ParquetRows(rows, {"id": "id"})
    with pytest.raises(RetryableError, match=r"a worker of the loader was killed: .* use fewer workers") as caught:
        load(Loader(source, 16, workers=1))
    assert "\n" not in str(caught.value)
    assert load(Loader(source, 16)), "a thread of this process is no worker"


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_workers_can_start_anew(rows, method):
    from pipelines.container.torch.parquet_rows import ParquetRows

    source = ParquetRows(rows, {"id": "id"})
    assert load(Loader(source, 64, workers=1, start_method=method)) == load(Loader(source, 64, workers=1))
