"""Test batches of Parquet rows: their types, and what is refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.pipelines.container.torch.conftest import REASON, write_rows

pytest.importorskip("torch", reason=REASON)
import torch

from pipelines.container.torch.loader import Loader
from pipelines.container.torch.parquet_rows import ParquetRows
from pipelines.errors import DataError


def load_all(folder, columns=None, **options):
    batches = list(Loader(ParquetRows(folder, columns), 16, **options))
    return {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}


def write(folder, name="a.parquet", **columns):
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / name, row_group_size=3)
    return folder


def test_columns_have_their_types_and_several_are_a_float32_matrix(rows):
    batch = load_all(rows, {"id": "id", "label": "x", "features": ["x", "y", "id"]}, seed=1)
    assert (batch["id"].dtype, batch["label"].dtype) == (torch.int64, torch.float64)
    assert (batch["features"].dtype, batch["features"].shape) == (torch.float32, (501, 3))
    ids = batch["id"].double()
    assert torch.equal(batch["label"], ids / 2), "a row stays together"
    assert torch.equal(batch["features"].double(), torch.stack([ids / 2, ids / -2, ids], 1))


def test_lists_of_fixed_size_booleans_and_nulls(tmp_path):
    tokens = pa.array([[number, number + 1] for number in range(8)], pa.list_(pa.int32(), 2))
    values = [None, *map(float, range(7))]
    folder = write(tmp_path / "t", tokens=tokens, flag=[True, False] * 4, x=values, n=[None, *range(7)])
    batch = load_all(folder, {"tokens": "tokens", "flag": "flag", "x": "x", "m": ["n", "flag"]}, shuffle=False)
    assert batch["tokens"].tolist() == [[number, number + 1] for number in range(8)]
    assert batch["flag"].tolist() == [True, False] * 4
    assert np.isnan(batch["x"][0]) and batch["x"][1:].tolist() == values[1:]
    assert np.isnan(batch["m"][0, 0]) and batch["m"][1].tolist() == [0.0, 0.0]


def test_without_columns_each_one_is_a_tensor(tmp_path):
    batch = load_all(write(tmp_path / "t", a=[1, 2], b=[0.5, 1.5]), shuffle=False)
    assert {name: values.tolist() for name, values in batch.items()} == {"a": [1, 2], "b": [0.5, 1.5]}


def test_files_in_folders_are_read_and_hidden_ones_are_not(tmp_path):
    write_rows(tmp_path / "t" / "day=1", 5)
    write(tmp_path / "t", ".hidden.parquet", id=[99])
    write_rows(tmp_path / "t" / ".tmp", 3)
    assert load_all(tmp_path / "t", {"id": "id"}, shuffle=False)["id"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"x": [1, None, 3]}, r"column x of a\.parquet has 1 null\(s\), and is of type int64\. Fill them"),
        (
            {"x": pa.array([None, [1]], pa.list_(pa.int8(), 1))},
            r"row group 0 of a\.parquet cannot be read: .*all lists",
        ),
    ],
)
def test_null_where_there_can_be_none_is_one_line(tmp_path, columns, text, workers):
    with pytest.raises(DataError, match=text) as caught:
        load_all(write(tmp_path / "t", **columns), workers=workers)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"x": "text"}, r"the column text of part-0\.parquet is of type string, which is not a number"),
        ({"x": ["x", "z"]}, r"part-0\.parquet has no column z\. It has id, x, y, text"),
        (None, "the column text of"),
    ],
)
def test_columns_that_are_not_there_or_hold_no_numbers_are_refused(rows, columns, text):
    with pytest.raises(DataError, match=text):
        ParquetRows(rows, columns)


def test_files_with_other_types_or_columns_are_refused_at_the_start(tmp_path):
    write(tmp_path / "t", x=[1, 2], y=[1.0, 2.0])
    write(tmp_path / "t", "b.parquet", x=[0.5], y=[1.0])
    assert load_all(tmp_path / "t", {"y": "y"})["y"].shape == (3,), "a column that is not read may differ"
    with pytest.raises(DataError, match=r"column x is of type double in b\.parquet, and of type int64 in a\.parquet"):
        ParquetRows(tmp_path / "t", {"x": "x"})
    write(tmp_path / "t", "c.parquet", x=[1])
    with pytest.raises(DataError, match=r"c\.parquet has no column y"):
        ParquetRows(tmp_path / "t", {"y": "y"})


def test_empty_channel_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"the channel t has no file \*\.parquet"):
        ParquetRows(tmp_path / "t")
    with pytest.raises(DataError, match=r"the channel t has no rows"):
        ParquetRows(write(tmp_path / "t", x=pa.array([], pa.int64())), {"x": "x"})


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 1_000])
def test_file_that_is_no_parquet_file_is_refused_at_the_start(rows, content):
    (rows / "part-1.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"^part-1\.parquet cannot be read as a Parquet file: .* Write the file again"):
        ParquetRows(rows, {"x": "x"})


@pytest.mark.parametrize("workers", [0, 2])
def test_damaged_page_is_one_line(rows, workers):
    path = rows / "part-2.parquet"
    source = ParquetRows(rows, {"x": "x"})
    column = pq.read_metadata(path).row_group(3).column(1)
    content = bytearray(path.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    content[start + column.total_compressed_size - 3] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"^row group 3 of part-2\.parquet cannot be read: .*CRC") as caught:
        list(Loader(source, 16, workers=workers))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("workers", [0, 1])
def test_file_that_changes_or_goes_away_is_one_line(rows, workers):
    source = ParquetRows(rows, {"x": "x"})
    write_rows(rows, 230, 2)
    with pytest.raises(DataError, match=r"row group 0 of part-1\.parquet has 2 rows, and had 1 before"):
        list(Loader(source, 16, workers=workers))
    (rows / "part-1.parquet").unlink()
    with pytest.raises(DataError, match=r"row group 0 of part-1\.parquet cannot be read"):
        list(Loader(source, 16, workers=workers))
