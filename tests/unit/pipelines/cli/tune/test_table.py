"""Test that the table of the trials is read in the order of their objectives, and a damaged one is refused."""

from pathlib import Path

import pytest

from pipelines.cli.tune.table import build_table, read_rows
from pipelines.errors import DataError

HEADER = "number,state,objective,rounds,best_round,seconds,reason,param_eta\n"


def test_the_best_trial_is_the_first(tmp_path: Path) -> None:
    (tmp_path / "trials.csv").write_text(
        f"{HEADER}0,pruned,,4,3,1.5,pruned after round 4,0.3\n"
        "1,complete,0.7,9,8,2.0,,0.1\n"
        "2,complete,0.5,9,8,2.0,,0.2\n"
    )
    rows = read_rows(tmp_path)
    assert [row["number"] for row in rows] == ["2", "1", "0"]
    assert build_table(rows, "logloss").row_count == 3


@pytest.mark.parametrize(
    "content",
    [
        b"number,state,objective\n0,complete,0.5\n",
        HEADER.encode() + b"0,complete,0.5\n",
        HEADER.encode() + b"0,complete,0.5,9,8,2.0,,0.1,more\n",
        HEADER.encode() + b"0,complete,best,9,8,2.0,,0.1\n",
        b"\xff\xfe",
    ],
)
def test_a_damaged_table_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "trials.csv").write_bytes(content + b"0,")
    with pytest.raises(DataError, match=r"trials\.csv cannot be read"):
        read_rows(tmp_path)
