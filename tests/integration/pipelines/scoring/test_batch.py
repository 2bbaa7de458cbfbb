"""Test the files for Batch Transform and the reading of its output, with a real lake, MLflow and model."""

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
from pipelines.scoring import batch as batch_files
from pipelines.steps import batch, score
from pipelines.system.files import sha256
from tests.tools import untar
from tests.tools.packages import append_code, change_package

DAY = dt.date(2013, 2, 1)
Publish = Callable[..., pa.Table]
PREDICT = """
import sys
sys.path.insert(0, sys.argv[1] + "/code")
import inference, pipelines, pathlib, pyarrow
assert pathlib.Path(pipelines.__file__).is_relative_to(sys.argv[1]), pipelines.__file__
stream = pyarrow.BufferOutputStream()
table = pyarrow.table({"carrier": ["UA"]})
with pyarrow.ipc.new_stream(stream, table.schema) as writer:
    writer.write_table(table)
content_type = "application/vnd.apache.arrow.stream"
assert inference.input_fn(stream.getvalue().to_pybytes(), content_type).rows == [{"carrier": "UA"}]
model = inference.model_fn(sys.argv[1])
for path in sorted(pathlib.Path(sys.argv[2]).iterdir()):
    rows = inference.input_fn(path.read_bytes(), inference.LINES)
    lines = inference.output_fn(inference.predict_fn(rows, model), inference.LINES).body
    pathlib.Path(sys.argv[3], path.name + ".out").write_text(lines + "\\n")
"""


def prepare_job(folder: Path, **fields: Any) -> batch.BatchResult:
    """Run the step `batch`."""
    spec = {"model": "scored", "partition": DAY, "folder": folder, **fields}
    return batch.run(batch.BatchSpec(**{"dataset": "flights", **spec}))


def run_packaged_model(folder: Path) -> str:
    """Score the rows in a process that can import only the package, and return the folder of its output."""
    model, out = folder / "unpacked", folder / "out"
    with tarfile.open(folder / "model" / "model.tar.gz") as archive:
        archive.extractall(model, **untar.EXTRACT_OPTIONS)
    out.mkdir()
    subprocess.run([sys.executable, "-I", "-c", PREDICT, str(model), str(folder / "rows"), str(out)], check=True)
    return str(out)


def run_score(**fields: Any) -> score.ScoreResult:
    """Run the step `score`."""
    return score.run(score.ScoreSpec(**{"dataset": "flights", "model": "scored", "partition": DAY, **fields}))


def read_predictions() -> pd.DataFrame:
    return Lake.open().read_partition("flights_predictions", DAY).to_pandas()


def test_the_packaged_model_gives_the_scores_of_the_process(
    publish: Publish, champion: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its scores are equal to the last bit, so scoring in process finds the same predictions and commits nothing."""
    monkeypatch.setattr(batch_files, "PART_ROWS", 300)
    rows = publish().num_rows
    job = prepare_job(tmp_path / "job")
    assert job.version == champion and job.request.startswith(f"{rows}-")
    assert len(list((tmp_path / "job" / "rows").iterdir())) == -(-rows // 300) > 2
    first = run_score(version=job.version, request=job.request, response=run_packaged_model(tmp_path / "job"))
    assert first.changed and first.scored == rows
    digest, predictions = sha256(Path(str(first.rows))), read_predictions()
    repeat = run_score()
    assert not repeat.changed
    assert sha256(Path(str(repeat.rows))) == digest and read_predictions().equals(predictions)


def test_preparing_a_job_twice_gives_the_same_files(publish: Publish, champion: str, tmp_path: Path) -> None:
    publish()
    jobs = [prepare_job(tmp_path / name) for name in ("one", "two")]
    assert jobs[0] == jobs[1]
    assert sha256(tmp_path / "one") == sha256(tmp_path / "two")


def test_no_champion_writes_nothing(publish: Publish, with_mlflow: str, tmp_path: Path) -> None:
    publish()
    assert prepare_job(tmp_path / "job") == batch.BatchResult()
    assert not (tmp_path / "job").exists()


def test_score_leaves_a_day_with_more_rows_than_max_rows_to_a_job(publish: Publish, champion: str) -> None:
    rows = publish().num_rows
    too_large = run_score(max_rows=rows - 1)
    assert too_large.large and not too_large.scored and not too_large.reason
    assert not Lake.open().count_rows_of_partitions("flights_predictions", [DAY])
    result = run_score(max_rows=rows)
    assert result.scored == rows and not result.large


@pytest.mark.soak
def test_refuses_the_scores_of_rows_that_changed_while_the_job_ran(
    publish: Publish, champion: str, tmp_path: Path
) -> None:
    rows = publish()
    job = prepare_job(tmp_path / "job")
    output = run_packaged_model(tmp_path / "job")

    def change_time(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index("sched_dep_time")
        return table.set_column(
            at, table.schema.field(at), pa.array([2359] * table.num_rows, table.schema.field(at).type)
        )

    changes: list[Callable[[pa.Table], pa.Table]] = [lambda table: table.slice(0, 500), change_time]
    for change in changes:
        publish(change=change)
        with pytest.raises(ConflictError, match="published again while the job ran"):
            run_score(version=job.version, request=job.request, response=output)
    publish(change=lambda _: rows)
    assert run_score(version=job.version, request=job.request, response=output).scored == rows.num_rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], r"got (\d+) rows, but returned \d+ scores"),
        (lambda lines: [*lines, "0.5"], r"got (\d+) rows, but returned \d+ scores"),
        (lambda lines: ["nonsense", *lines[1:]], "a score in the job's output is not a number: 'nonsense"),
        (lambda lines: ["NaN", *lines[1:]], "not a number for 1 of"),
    ],
)
def test_refuses_output_that_does_not_have_a_score_for_each_row(
    change: Any, message: str, publish: Publish, champion: str, tmp_path: Path
) -> None:
    rows = publish().num_rows
    job = prepare_job(tmp_path / "job")
    (tmp_path / "out").mkdir()
    lines = change(["0.25"] * rows)
    (tmp_path / "out" / "part-00000.jsonl.out").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=message):
        run_score(version=job.version, request=job.request, response=str(tmp_path / "out"))
    assert not Lake.open().count_rows_of_partitions("flights_predictions", [DAY])


def test_refuses_a_request_of_another_content_type() -> None:
    from pipelines.container import inference
    from pipelines.container.serving.tables import LINES

    with pytest.raises(ValueError, match="content type text/plain is not supported"):
        inference.input_fn(b"1,2", "text/plain")
    with pytest.raises(ValueError, match="content type text/csv is not supported"):
        inference.output_fn(inference.Prediction([0.5]), "text/csv")
    lines = inference.output_fn(inference.Prediction([0.1, 1 / 3]), LINES).body
    assert [float(json.loads(line)) for line in lines.split()] == [0.1, 1 / 3]


def test_packs_no_package_that_is_not_the_registered_one(publish: Publish, champion: str, tmp_path: Path) -> None:
    """A Batch Transform job runs the package in another place, where nothing is checked."""
    publish()
    with (
        change_package("scored", champion, "serving.py", append_code(tmp_path / "ran")),
        pytest.raises(DataError, match="are not those that were registered"),
    ):
        prepare_job(tmp_path / "job")
    assert not (tmp_path / "job").exists() and not (tmp_path / "ran").exists()
