"""Test scoring in processes: exit codes, kill -9 during the write, several processes at once."""

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

SCORE = ("score", "--dataset", "flights", "--model", "scored", "--partition", str(DAY))
KILLED_SCORE = """
import os, signal, sys
from pipelines.lake.transaction import CachingTransaction
from pipelines.scoring import scores

class Owner:
    transaction, path = CachingTransaction, scores.os

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

owner, name = sys.argv.pop(1).split(".")
setattr(getattr(Owner, owner), name, die)
from pipelines.cli.app import main
main()
"""


def read_predictions() -> pd.DataFrame:
    return Lake.open().read_partition("flights_predictions", DAY).to_pandas()


def run() -> score.ScoreResult:
    return score.run(score.ScoreSpec(dataset="flights", model="scored", partition=DAY))


def cut_rows(rows: pa.Table) -> pa.Table:
    return rows.slice(0, 500)


def test_a_model_without_a_champion_is_no_error(publish: Publish, with_mlflow: str, commands: Any) -> None:
    publish()
    process = commands.run_step("score", "--dataset", "flights", "--model", "nobody", "--partition", str(DAY))
    assert process.code == 0, process.err
    result = json.loads(process.out)
    assert (result["scored"], result["rows"], result["table"]) == (0, None, "flights_predictions")
    assert result["reason"] == f"nobody has no champion that was trained as of {DAY} or before."


@pytest.mark.parametrize(
    ("is_published", "code", "line"),
    [
        (False, 2, "error: flights has no partition 2013-02-01. Publish it first: `ingest`, then `validate`.\n"),
        (True, 75, "error: MLflow at http://127.0.0.1:9 does not answer."),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    publish: Publish, commands: Any, is_published: bool, code: int, line: str
) -> None:
    if is_published:
        publish()
    process = commands.run_step(*SCORE, env={"MLFLOW_TRACKING_URI": "http://127.0.0.1:9"})
    assert process.code == code
    assert process.err.splitlines()[-1].startswith(line.strip())
    assert "Traceback" not in process.err


@pytest.mark.parametrize(
    ("function", "is_written"),
    [
        pytest.param("transaction.add_files", False, marks=pytest.mark.soak),
        ("transaction.commit_transaction", False),
        ("path.replace", True),
    ],
)
def test_kill_9_during_the_write_leaves_the_old_predictions_or_the_new(
    publish: Publish, champion: str, commands: Any, function: str, is_written: bool
) -> None:
    publish()
    old_rows = run().rows
    old_predictions, old_table = read_predictions(), pq.read_table(old_rows)
    publish(change=cut_rows)
    process = commands.run(sys.executable, "-c", KILLED_SCORE, function, *SCORE)
    assert process.code == -signal.SIGKILL, process.err
    predictions = read_predictions()
    assert predictions.equals(old_predictions) if not is_written else len(predictions) == 500
    assert pq.read_table(old_rows).equals(old_table), "the old file is unchanged"
    result = run()
    assert (result.scored, result.changed) == (500, not is_written)
    after = read_predictions()
    assert len(after) == 500 and after["scored_at"].nunique() == 1
    assert pq.read_table(result.rows).num_rows == 500


@pytest.mark.soak
def test_several_processes_leave_one_set_of_predictions_for_each_version(
    publish: Publish, champion: str, make_champion: Callable[[str], str], commands: Any
) -> None:
    rows = publish()
    other = make_champion("2013-02-01")
    processes = [commands.start(sys.executable, "-m", "pipelines", *SCORE, "--version", version)
                 for version in (champion, champion, champion, other)]  # fmt: skip
    results = []
    for process in processes:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        results.append(SimpleNamespace(**json.loads(out)))
    assert sum(result.changed for result in results[:3]) == 1, "the other two find the same predictions"
    predictions = read_predictions()
    assert len(predictions) == 2 * rows.num_rows
    for version, version_predictions in predictions.groupby("model_version"):
        assert version in (champion, other)
        assert len(version_predictions) == rows.num_rows and version_predictions["scored_at"].nunique() == 1
    assert {Path(result.rows).exists() for result in results} == {True}
