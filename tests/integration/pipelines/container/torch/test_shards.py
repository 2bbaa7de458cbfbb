"""Test batches of shards, those of WebDataset too, and what is refused."""

import io
import tarfile

import numpy as np
import pytest

from tests.integration.pipelines.container.torch.conftest import REASON

pytest.importorskip("torch", reason=REASON)
import torch

from pipelines.container.torch.loader import Loader
from pipelines.container.torch.shard_index import get_index_path
from pipelines.container.torch.shards import Shards
from pipelines.container.torch.write_shards import write_shards
from pipelines.errors import DataError

SAMPLES = [
    {"__key__": f"s{number:03d}", "x.npy": np.full(50, number, np.float32), "cls": number, "txt": f"text {number}"}
    for number in range(120)
]


def load(folder, decode=None, **options):
    return list(Loader(Shards(folder, decode), 16, **options))


def test_entries_are_decoded_by_their_endings(tmp_path):
    write_shards(tmp_path, [{**sample, "json": {"n": 1}, "jpg": b"\xff"} for sample in SAMPLES])
    batch = load(tmp_path, shuffle=False)[1]
    assert torch.equal(batch["x.npy"], torch.arange(16.0, 32).repeat_interleave(50).reshape(16, 50))
    assert batch["cls"].tolist() == list(range(16, 32))
    assert batch["txt"][0] == "text 16"
    assert batch["json"] == [{"n": 1}] * 16
    assert batch["jpg"] == [b"\xff"] * 16
    assert batch["__key__"][0] == "s016"


def test_shards_are_those_of_webdataset(tmp_path):
    """WebDataset reads our shards, and we read those of WebDataset."""
    webdataset = pytest.importorskip("webdataset", reason="WebDataset is not installed: pip install webdataset")
    paths = write_shards(tmp_path / "own", SAMPLES, shard_bytes=60_000)
    assert len(paths) > 1
    read = list(webdataset.WebDataset([str(path) for path in paths], shardshuffle=False))
    assert [sample["__key__"] for sample in read] == [sample["__key__"] for sample in SAMPLES]
    assert [int(sample["cls"]) for sample in read] == list(range(120))
    (tmp_path / "other").mkdir()
    with webdataset.ShardWriter(str(tmp_path / "other" / "%06d.tar"), maxcount=50, verbose=0) as writer:
        for sample in SAMPLES:
            writer.write(sample)
    own, other = (load(tmp_path / name, shuffle=False) for name in ("own", "other"))
    assert len(own) == len(other) == 8
    for left, right in zip(own, other, strict=True):
        assert left["__key__"] == right["__key__"]
        assert torch.equal(left["x.npy"], right["x.npy"])
        assert left["cls"].tolist() == right["cls"].tolist()


def test_shards_without_an_index_give_the_same_batches(tmp_path):
    paths = write_shards(tmp_path, SAMPLES, shard_bytes=60_000)
    with_index = [batch["cls"].tolist() for batch in load(tmp_path, seed=3)]
    for path in paths:
        get_index_path(path).unlink()
    assert [batch["cls"].tolist() for batch in load(tmp_path, seed=3)] == with_index


@pytest.mark.parametrize("workers", [0, 1])
def test_decode_makes_the_values_of_the_batch(tmp_path, workers):
    write_shards(tmp_path, SAMPLES)

    def decode(sample):
        return {"mean": sample["x.npy"].mean(), "y": torch.tensor(sample["cls"] % 2)}

    batch = load(tmp_path, decode, workers=workers, shuffle=False)[0]
    assert batch["mean"].tolist() == list(range(16))
    assert batch["y"].tolist() == [0, 1] * 8


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("decode", "text"),
    [
        (lambda sample: 1 / 0, r"^`decode` failed for the sample s000 of shard-000000\.tar: ZeroDivisionError"),
        (lambda sample: {"x": np.zeros(sample["cls"])}, "the samples of a batch cannot be stacked: .*Give `Shards` a"),
        (lambda sample: {f"x{sample['cls']}": 1}, "a sample has x1, and another one x0"),
    ],
)
def test_samples_that_make_no_batch_are_one_line(tmp_path, decode, text, workers):
    write_shards(tmp_path, SAMPLES)
    with pytest.raises(DataError, match=text) as caught:
        load(tmp_path, decode, workers=workers, shuffle=False)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("place", ["header", "value"])
def test_damaged_shard_is_one_line(tmp_path, workers, has_index, place):
    """The damage comes after the start. Without an index, a damaged value of an array cannot be seen."""
    (path, *_) = write_shards(tmp_path, SAMPLES)
    if not has_index:
        get_index_path(path).unlink()
    source = Shards(tmp_path)
    content = bytearray(path.read_bytes())
    start = content.index(b"s060.x.npy")
    content[start + (150 if place == "header" else tarfile.BLOCKSIZE + 200)] ^= 0xFF
    path.write_bytes(content)
    if place == "value" and not has_index:
        assert len(list(Loader(source, 16, workers=workers))) == 8
        return
    with pytest.raises(DataError, match=r"^shard-000000\.tar .*(damaged|cannot be read)") as caught:
        list(Loader(source, 16, workers=workers))
    assert "\n" not in str(caught.value)


def test_shard_that_goes_away_or_becomes_shorter_is_one_line(tmp_path):
    (path, *_) = write_shards(tmp_path, SAMPLES)
    source = Shards(tmp_path)
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(DataError, match=r"^shard-000000\.tar is damaged"):
        list(Loader(source, 16))
    path.unlink()
    with pytest.raises(DataError, match=r"^shard-000000\.tar cannot be read"):
        list(Loader(source, 16))


def test_channel_without_shards_or_samples_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"has no file \*\.tar"):
        Shards(tmp_path)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("folder/__meta__.json"), io.BytesIO())
    with pytest.raises(DataError, match="has no samples"):
        Shards(tmp_path)
