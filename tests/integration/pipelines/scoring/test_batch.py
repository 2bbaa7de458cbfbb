"""What is sent to Batch Transform and what comes back of it: a real lake, a real MLflow, a real model."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from pipelines.errors import ConflictError, DataError
from pipelines.lake import Lake
from pipelines.scoring import batch as sent
from pipelines.steps import batch, score
from pipelines.system.files import sha256
from tests.tools import untar

DAY = dt.date(2013, 2, 1)
Publish = Callable[..., pa.Table]
ASK = """
import sys
sys.path.insert(0, sys.argv[1] + "/code")
import inference, pipelines, pathlib
assert pathlib.Path(pipelines.__file__).is_relative_to(sys.argv[1]), pipelines.__file__
model = inference.model_fn(sys.argv[1])
for path in sorted(pathlib.Path(sys.argv[2]).iterdir()):
    rows = inference.input_fn(path.read_bytes(), inference.LINES)
    told = inference.output_fn(inference.predict_fn(rows, model), inference.LINES)
    pathlib.Path(sys.argv[3], path.name + ".out").write_text(told + "\\n")
"""


def prepared(folder: Path, **fields: Any) -> batch.BatchResult:
    given = {"model_name": "scored", "partition": DAY, "folder": folder, **fields}
    return batch.run(batch.BatchSpec(**given))


def answered(folder: Path) -> str:
    """What the packaged model says, in a process that has nothing but the package."""
    model, out = folder / "unpacked", folder / "out"
    with tarfile.open(folder / "model" / "model.tar.gz") as archive:
        archive.extractall(model, **untar.DATA)
    out.mkdir()
    subprocess.run([sys.executable, "-I", "-c", ASK, str(model), str(folder / "rows"), str(out)], check=True)
    return str(out)


def scored(**fields: Any) -> score.ScoreResult:
    return score.run(score.ScoreSpec(**{"model_name": "scored", "partition": DAY, **fields}))


def predictions() -> pd.DataFrame:
    return Lake.open().read_partition("flights_predictions", DAY).to_pandas()


def test_the_packaged_model_says_what_is_said_in_process(
    publish: Publish, champion: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last bit: the other way then finds the same predictions, and commits nothing."""
    monkeypatch.setattr(sent, "PART_ROWS", 300)
    rows = publish().num_rows
    told = prepared(tmp_path / "sent")
    assert told.version == champion and told.request.startswith(f"{rows}-")
    assert len(list((tmp_path / "sent" / "rows").iterdir())) == -(-rows // 300) > 2
    first = scored(version=told.version, request=told.request, response=answered(tmp_path / "sent"))
    assert first.changed and first.scored == rows
    file, kept = sha256(Path(str(first.rows))), predictions()
    again = scored()
    assert not again.changed
    assert sha256(Path(str(again.rows))) == file and predictions().equals(kept)


def test_the_same_again_gives_the_same_files(publish: Publish, champion: str, tmp_path: Path) -> None:
    publish()
    told = [prepared(tmp_path / name) for name in ("one", "two")]
    assert told[0] == told[1]
    assert sha256(tmp_path / "one") == sha256(tmp_path / "two")


def test_no_champion_writes_nothing(publish: Publish, with_mlflow: str, tmp_path: Path) -> None:
    publish()
    assert prepared(tmp_path / "sent") == batch.BatchResult()
    assert not (tmp_path / "sent").exists()


def test_more_rows_than_may_be_scored_in_process_are_left(publish: Publish, champion: str) -> None:
    rows = publish().num_rows
    left = scored(max_rows=rows - 1)
    assert left.large and not left.scored and not left.reason
    assert not Lake.open().count_rows_of_days("flights_predictions", [DAY])
    told = scored(max_rows=rows)
    assert told.scored == rows and not told.large


def test_rows_that_were_published_anew_meanwhile_are_not_given_the_scores(
    publish: Publish, champion: str, tmp_path: Path
) -> None:
    rows = publish()
    told = prepared(tmp_path / "sent")
    answers = answered(tmp_path / "sent")

    def shuffled(had: pa.Table) -> pa.Table:
        at = had.schema.get_field_index("sched_dep_time")
        return had.set_column(at, had.schema.field(at), pa.array([2359] * had.num_rows, had.schema.field(at).type))

    changes: list[Callable[[pa.Table], pa.Table]] = [lambda had: had.slice(0, 500), shuffled]
    for change in changes:
        publish(change=change)
        with pytest.raises(ConflictError, match="published again while the job ran"):
            scored(version=told.version, request=told.request, response=answers)
    publish(change=lambda _: rows)
    assert scored(version=told.version, request=told.request, response=answers).scored == rows.num_rows


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[:-1], r"got (\d+) rows and returned \d+ scores"),
        (lambda lines: [*lines, "0.5"], r"got (\d+) rows and returned \d+ scores"),
        (lambda lines: ["nonsense", *lines[1:]], "a score in the job's output is not a number: 'nonsense"),
        (lambda lines: ["NaN", *lines[1:]], "not a number for 1 of"),
    ],
)
def test_answers_that_are_no_scores_of_the_rows_are_refused(
    change: Any, said: str, publish: Publish, champion: str, tmp_path: Path
) -> None:
    rows = publish().num_rows
    told = prepared(tmp_path / "sent")
    (tmp_path / "out").mkdir()
    lines = change(["0.25"] * rows)
    (tmp_path / "out" / "part-00000.jsonl.out").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=said):
        scored(version=told.version, request=told.request, response=str(tmp_path / "out"))
    assert not Lake.open().count_rows_of_days("flights_predictions", [DAY])


def test_a_request_of_another_kind_is_refused() -> None:
    from pipelines.container import inference

    with pytest.raises(ValueError, match="content type text/csv is not supported"):
        inference.input_fn(b"1,2", "text/csv")
    with pytest.raises(ValueError, match="content type text/csv is not supported"):
        inference.output_fn([0.5], "text/csv")
    assert [float(json.loads(line)) for line in inference.output_fn([0.1, 1 / 3], inference.LINES).split()] == [
        0.1,
        1 / 3,
    ]
