"""Scoring as processes: exit codes, kill -9 in the middle of the write, several at once."""

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.lake import Lake
from pipelines.steps import score

from .conftest import DAY, Publish

SCORE = ("score", "--model-name", "scored", "--partition", str(DAY))
KILLED = """
import os, signal, sys
from pipelines.lake.transaction import CachingTransaction
from pipelines.scoring import scores

class Place:
    transaction, path = CachingTransaction, scores.os

def die(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)

where, what = sys.argv.pop(1).split(".")
setattr(getattr(Place, where), what, die)
from pipelines.cli.app import main
main()
"""


def predictions() -> pd.DataFrame:
    return Lake.open().read_partition("flights_predictions", DAY).to_pandas()


def run() -> score.ScoreResult:
    return score.run(score.ScoreSpec(model_name="scored", partition=DAY))


def shorter(rows: pa.Table) -> pa.Table:
    return rows.slice(0, 500)


def test_no_champion_yet_is_no_error(publish: Publish, with_mlflow: str, commands: Any) -> None:
    publish()
    done = commands.step("score", "--model-name", "nobody", "--partition", str(DAY))
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert (told["scored"], told["rows"], told["table"]) == (0, None, "flights_predictions")
    assert told["reason"] == f"nobody has no champion that was trained as of {DAY} or before."


@pytest.mark.parametrize(
    ("published", "code", "line"),
    [
        (False, 2, "error: flights has no partition 2013-02-01. Publish it first: `ingest`, then `validate`.\n"),
        (True, 75, "error: MLflow at http://127.0.0.1:9 does not answer."),
    ],
)
def test_what_is_wrong_is_a_line_and_an_exit_code(
    publish: Publish, commands: Any, published: bool, code: int, line: str
) -> None:
    if published:
        publish()
    done = commands.step(*SCORE, env={"MLFLOW_TRACKING_URI": "http://127.0.0.1:9"})
    assert done.code == code
    assert done.err.splitlines()[-1].startswith(line.strip())
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("where", "written"),
    [("transaction.add_files", False), ("transaction.commit_transaction", False), ("path.replace", True)],
)
def test_kill_9_amid_the_write_leaves_the_old_predictions_or_the_new(
    publish: Publish, champion: str, commands: Any, where: str, written: bool
) -> None:
    publish()
    old_rows = run().rows
    old, had = predictions(), pq.read_table(old_rows)
    publish(change=shorter)
    killed = commands.run(sys.executable, "-c", KILLED, where, *SCORE)
    assert killed.code == -signal.SIGKILL, killed.err
    left = predictions()
    assert left.equals(old) if not written else len(left) == 500
    assert pq.read_table(old_rows).equals(had), "the file is whole, of before"
    told = run()
    assert (told.scored, told.changed) == (500, not written)
    after = predictions()
    assert len(after) == 500 and after["scored_at"].nunique() == 1
    assert pq.read_table(told.rows).num_rows == 500


def test_several_at_once_leave_one_set_for_each_version(
    publish: Publish, champion: str, crown: Callable[[str], str], commands: Any
) -> None:
    rows = publish()
    other = crown("2013-02-01")
    started = [commands.start(sys.executable, "-m", "pipelines", *SCORE, "--version", one)
               for one in (champion, champion, champion, other)]  # fmt: skip
    told = []
    for child in started:
        out, err = child.communicate(timeout=300)
        assert child.returncode == 0, err
        told.append(SimpleNamespace(**json.loads(out)))
    assert sum(one.changed for one in told[:3]) == 1, "the others found the same there"
    made = predictions()
    assert len(made) == 2 * rows.num_rows
    for version, of_it in made.groupby("model_version"):
        assert version in (champion, other)
        assert len(of_it) == rows.num_rows and of_it["scored_at"].nunique() == 1
    assert {Path(one.rows).exists() for one in told} == {True}
