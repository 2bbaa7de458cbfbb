"""Test a validation where all files of earlier validations are damaged: they are replaced, and the day is published."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.errors import DataError
from pipelines.lake import Lake
from pipelines.pages.reports import KINDS
from pipelines.steps import validate
from pipelines.validation import datadocs

DAY = dt.date(2013, 1, 1)
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "garbage": lambda _: b"\xff\xfe\x00" * 99,
    "other JSON": lambda _: b'{"partition": 1, "at": 2, "verdict": 3, "failures": 4}',
}


def test_damaged_files_of_evidence_and_docs_are_replaced(home: Path, day_rows: Callable[[str], pa.Table]) -> None:
    spec = validate.ValidateSpec(dataset="flights", partition=DAY)
    Lake.open().write_partition("flights_raw", DAY, day_rows(str(DAY)))
    validate.run(spec)
    files = [path for name in ("docs", "validation") for path in (home / name).rglob("*") if path.is_file()]
    assert len(files) > 3
    for damage, change in DAMAGES.items():
        for path in files:
            path.write_bytes(change(path.read_bytes()))
        result = validate.run(spec)
        assert (result.rows, result.changed) == (842, False), damage
        assert datadocs.build_site() == 1
        for path in files:
            is_list_of_reports = path.parent.name in KINDS
            expected = "There is no report yet." if is_list_of_reports else "2013-01-01"
            assert expected in path.read_text(), (damage, path)


@pytest.mark.parametrize("damage", ["cut", "empty", "garbage"])
def test_damaged_evidence_is_named_by_the_command_that_builds_the_pages(
    home: Path, damage: str, day_rows: Callable[[str], pa.Table]
) -> None:
    Lake.open().write_partition("flights_raw", DAY, day_rows(str(DAY)))
    evidence = validate.run(validate.ValidateSpec(dataset="flights", partition=DAY)).evidence
    evidence.write_bytes(DAMAGES[damage](evidence.read_bytes()))
    with pytest.raises(DataError, match=r"2013-01-01\.json is not JSON"):
        datadocs.build_site()
