"""The memory of a step does not grow with the day: processes that ingest it, and the most that they held."""

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

DAY = "2013-01-02"
FEW, MANY = 200_000, 4_000_000
MORE_MB = 384
"""What twenty times the rows may take more. The allocators keep what they have no use for, up to a point: 90 to 210 MiB
were seen, as much for 2 million rows as for 10 million. The same rows read whole take 600 more."""
ROWS = """
SELECT DATE '{day}' AS date, i AS id, 'word ' || i % 1000 AS word, {numbers}
FROM range({rows}) AS t(i)
"""
NUMBERS = 12
STEP = """
import datetime as dt, json, sys
from benchmarks.sources import read_peak_mb
from pipelines.dataset import Dataset
from pipelines.ingestion.sources import FileSource
from pipelines.steps.ingest import stage_partition

class Whole(FileSource):
    def read(self, partition):
        return super().read(partition).read_all().to_reader()

source, folder = {source}, sys.argv[1]
told = []
for name in {names}:
    made = source(folder + "/" + name + "-{{date}}.parquet", "parquet")
    result = stage_partition(Dataset(name="made", key=("id",)), made, dt.date.fromisoformat("{day}"))
    told.append([result.changes.added, result.changes.changed, read_peak_mb()])
print(json.dumps(told))
"""


def days(folder: Path, rows: int) -> Path:
    """A day in a file, and the day as it comes later: a row in ten is another."""
    folder.mkdir()
    for name, other in {"first": "0", "later": "(i % 10 = 0)::INTEGER"}.items():
        numbers = ", ".join(f"(hash(i + {n}) % 100000)::DOUBLE + {other} AS number_{n}" for n in range(NUMBERS))
        query = ROWS.format(day=DAY, numbers=numbers, rows=rows)
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({query}) TO '{folder}/{name}-{DAY}.parquet' (FORMAT parquet)")
    return folder


def peaks(
    commands: Any, folder: Path, rows: int, source: str = "FileSource", names: tuple[str, ...] = ("first", "later")
) -> list[float]:
    """The most memory held, MiB, once the day was ingested, and once it was again."""
    home = {"LEEWAY_HOME": f"{folder}-{source}"}
    code = STEP.format(source=source, day=DAY, names=names)
    done = commands.run(sys.executable, "-c", code, str(folder), env=home, is_real=True)
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert [one[:2] for one in told] == [[rows, 0], [0, rows // 10]][: len(names)]
    return [peak for *_, peak in told]


@pytest.mark.skipif(sys.platform != "linux", reason="VmHWM is Linux's")
def test_twenty_times_the_rows_take_no_more_memory_be_they_new_or_changed(commands: Any, tmp_path: Path) -> None:
    few = peaks(commands, days(tmp_path / "few", FEW), FEW)
    many = peaks(commands, folder := days(tmp_path / "many", MANY), MANY)
    assert [round(more - less) for more, less in zip(many, few, strict=True) if more - less > MORE_MB] == []
    whole = peaks(commands, folder, MANY, "Whole", ("first",))
    assert whole[0] - few[0] > MORE_MB  # it would be seen: the same rows, read whole
