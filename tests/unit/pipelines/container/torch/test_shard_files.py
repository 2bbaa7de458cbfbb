"""Test that shards are written as WebDataset has them, and that damaged and dangerous ones are refused. No torch."""

import io
import json
import pickle
import tarfile

import numpy as np
import pytest

from pipelines.container.torch.shard_entries import decode_sample, split_name
from pipelines.container.torch.shard_index import get_index_path, read_index, scan_shard
from pipelines.container.torch.write_shards import write_shards
from pipelines.errors import DataError

SAMPLES = [
    {
        "__key__": f"a/{number:03d}",
        "x.npy": np.arange(number),
        "info.json": {"n": number},
        "cls": number % 3,
        "txt": "é",
    }
    for number in range(40)
]


def read_tar(path):
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def write_tar(path, files):
    with tarfile.open(path, "w") as tar:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def test_shards_have_each_sample_once_and_are_plain_tar_files(tmp_path):
    paths = write_shards(tmp_path, SAMPLES, prefix="train", shard_bytes=20_000)
    assert len(paths) > 2
    assert [path.name for path in paths[:2]] == ["train-000000.tar", "train-000001.tar"]
    files = {name: content for path in paths for name, content in read_tar(path).items()}
    assert len(files) == 4 * len(SAMPLES)
    assert json.loads(files["a/007.info.json"]) == {"n": 7}
    assert files["a/007.cls"] == b"1"
    assert np.load(io.BytesIO(files["a/007.x.npy"])).tolist() == list(range(7))
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json"] * len(paths) + [".tar"] * len(paths)


def test_error_at_the_end_leaves_no_shard(tmp_path):
    obstacle = tmp_path / "shard-000001.index.json"
    obstacle.mkdir()
    with pytest.raises(OSError, match="shard-000001"):
        write_shards(tmp_path, SAMPLES, shard_bytes=20_000)
    assert list(tmp_path.iterdir()) == [obstacle]


def test_index_says_what_the_headers_say(tmp_path):
    for path in write_shards(tmp_path, SAMPLES, shard_bytes=20_000):
        index = read_index(path)
        assert scan_shard(path).offsets == index.offsets
        assert len(index.checksums) == len(index.offsets) - 1
        get_index_path(path).unlink()
        assert read_index(path).offsets == index.offsets
        assert read_index(path).checksums == ()


def test_the_same_samples_give_the_same_bytes(tmp_path):
    first, second = (write_shards(tmp_path / name, SAMPLES) for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_long_and_foreign_names_are_kept(tmp_path):
    key = "folder/" + "ö" * 150
    (path,) = write_shards(tmp_path, [{"__key__": key, "txt": "a"}, {"__key__": "b", "txt": "b"}])
    assert list(read_tar(path)) == [f"{key}.txt", "b.txt"]
    assert scan_shard(path).offsets == read_index(path).offsets


def test_names_are_split_by_the_first_dot_of_the_last_part():
    assert split_name("a.b/c.seg.png") == ("a.b/c", "seg.png")
    assert split_name("c") == ("c", "")


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.ones((2, 3))),
        np.array(1.5),
        np.array(["a", "bc"]),
        np.empty((0, 3)),
    ],
)
def test_arrays_are_what_numpy_reads(array):
    for version in ((1, 0), (2, 0)):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, version)
        for _ in range(2):  # the second time, the header is known
            loaded = decode_sample("a.tar", "1", {"x.npy": buffer.getvalue()})["x.npy"]
            assert loaded.dtype == array.dtype and loaded.shape == array.shape and (loaded == array).all()
            assert loaded.flags.writeable
        with pytest.raises(DataError, match=r"the entry x\.npy of the sample 1 in a\.tar cannot be read"):
            decode_sample("a.tar", "1", {"x.npy": buffer.getvalue()[:70]})


@pytest.mark.parametrize(
    ("sample", "text"),
    [
        ({"pkl": b"x"}, "a pickle, which can run code"),
        ({"model.pth": b"x"}, "a pickle, which can run code"),
        ({"PYD": b"x"}, "a pickle, which can run code"),
        ({"x.npy": np.array([object()])}, "cannot be written: Object arrays"),
        ({"jpg": "text"}, "is of type str, not bytes"),
        ({"cls": "cat"}, "cannot be written"),
        ({"json": {1, 2}}, "cannot be written"),
        ({"__key__": "a.b", "txt": "a"}, "the key 'a.b' is not usable"),
        ({"__key__": "", "txt": "a"}, "the key '' is not usable"),
        ({}, "has no entry"),
    ],
)
def test_bad_sample_is_one_line_and_no_shard_is_left(tmp_path, sample, text):
    with pytest.raises(DataError, match=text) as caught:
        write_shards(tmp_path / "out", [*SAMPLES, sample], shard_bytes=20_000)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_key_twice_in_a_row_and_existing_shards_are_refused(tmp_path):
    with pytest.raises(DataError, match="two samples in a row have the key a"):
        write_shards(tmp_path, [{"__key__": "a", "txt": "1"}, {"__key__": "a", "txt": "2"}])
    write_shards(tmp_path, SAMPLES)
    with pytest.raises(DataError, match=r"has the shard shard-000000\.tar already"):
        write_shards(tmp_path, SAMPLES)
    with pytest.raises(DataError, match="there are no samples"):
        write_shards(tmp_path / "empty", [])


class Malice:
    """Run code when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("ending", ["pyd", "pickle", "pkl", "pth", "PKL", "meta.pickle"])
def test_a_pickle_in_a_shard_of_others_is_refused_and_not_read(tmp_path, ending):
    mark, content = tmp_path / "mark", pickle.dumps(Malice(tmp_path / "mark"))
    write_tar(tmp_path / "a.tar", [("0.txt", b"a"), ("1.txt", b"a"), (f"1.{ending}", content)])
    with pytest.raises(DataError, match=f"^a.tar has the entry {ending}, a pickle"):
        read_index(tmp_path / "a.tar")
    with pytest.raises(DataError, match="a pickle"):
        decode_sample("a.tar", "1", {ending: content})
    assert not mark.exists()
    pickle.loads(content)
    assert mark.exists(), "this pickle does run code"


def test_array_of_objects_is_refused_and_not_unpickled(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Malice(tmp_path / "mark")]), allow_pickle=True)
    with pytest.raises(DataError, match=r"the entry npy of the sample 1 in a\.tar cannot be read: Object arrays"):
        decode_sample("a.tar", "1", {"npy": buffer.getvalue()})
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    ("damage", "has_index"),
    [
        *((damage, has_index) for damage in ("truncated", "empty", "text") for has_index in (True, False)),
        ("header", False),  # with an index, the checksum tells it when it is read (test_shards.py)
    ],
)
def test_damaged_shard_is_named_before_the_training(tmp_path, damage, has_index):
    (path,) = write_shards(tmp_path, SAMPLES)
    content = bytearray(path.read_bytes())
    if damage == "header":
        content[content.index(b"a/020") + 130] ^= 0xFF
    path.write_bytes({"truncated": content[:30_000], "header": content, "empty": b"", "text": b"x" * 5_000}[damage])
    if not has_index:
        get_index_path(path).unlink()
    with pytest.raises(DataError, match=r"shard-000000") as caught:
        read_index(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", ["", "{}", '{"format": "leeway-shard-index 1", "size_bytes": 1, "offsets": 5}', "[]"]
)
def test_damaged_index_is_named(tmp_path, content):
    (path,) = write_shards(tmp_path, SAMPLES)
    get_index_path(path).write_text(content)
    with pytest.raises(DataError, match=r"the index shard-000000\.index\.json"):
        read_index(path)
