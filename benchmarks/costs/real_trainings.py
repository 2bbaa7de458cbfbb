"""Train the model of flights on a growing part of a real year, and compare predicted with actual training times.

The training of a month uses all days of 2013 until the end of that month. It is a job of drydock: Leeway's own script,
the parameters of flights, one thread, and all of `ROUNDS` rounds, without early stopping. So each training takes some
seconds, and other work on the machine disturbs it less. The benchmark has its own ledger, with a row for each training
and the size of its data. The time of each training is predicted from the trainings before it, as `leeway plan` does,
once with the sizes and once without them. LEEWAY_BENCH_MONTHS sets a smaller number of months.
"""

from __future__ import annotations

import calendar
import datetime as dt
import io
import os
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.drydock import Server, run_drydock, wait_for
from pipelines.code_files import locate_bundle
from pipelines.costs.charge_jobs import JobPurpose, charge_jobs
from pipelines.costs.charges import FINAL_STATUSES, Job
from pipelines.costs.job_records import INPUT_BYTES_VARIABLE, find_data_wait_share, to_training_record
from pipelines.costs.ledger import Ledger, Row
from pipelines.costs.usage.input_data import list_channels, measure_channels
from pipelines.params import load_section
from pipelines.planning.recommendation.correction import measure_accuracy
from pipelines.planning.recommendation.data_size import format_bytes
from pipelines.planning.recommendation.history import list_observations
from pipelines.settings import settings

PROJECT = Path(__file__).parents[2]
MONTHS = int(os.environ.get("LEEWAY_BENCH_MONTHS", "12"))
YEAR, VALIDATION_DAYS, HOLDOUT_DAYS = 2013, 7, 7
ROUNDS = 60
ONE_DAY = dt.timedelta(days=1)
CHANNELS = ("train", "validation")


def run() -> dict[str, Any]:
    """Return the seconds of the trainings; as facts, their predictions, and the errors in each half of the trainings.

    Raises:
        RuntimeError: a training failed.
    """
    with tempfile.TemporaryDirectory(dir=os.environ.get("LEEWAY_BENCH_TMP")) as name:
        folder = Path(name)
        os.environ["LEEWAY_HOME"] = str(folder / "home")
        settings.cache_clear()
        with run_drydock(folder) as server:
            _upload_code(server)
            month_files: list[Path] = []
            for month in range(1, MONTHS + 1):
                month_files.append(_write_month(folder, month))
                features = _build_features(folder, month, month_files)
                _charge(server, _train(server, month, features))
        rows = Ledger.open().read_rows()
    return {"seconds": {"a training": [float(row["training_s"]) for row in rows]}, "facts": summarize(rows)}


def summarize(rows: Sequence[Row]) -> dict[str, Any]:
    """Return each training with its predictions, and the errors of predictions with and without the sizes of the data.

    The errors are those of the predictions themselves, and of the predictions multiplied by the correction factor that
    `leeway plan` learns from earlier trainings.

    Args:
        rows: rows of the ledger, oldest first; all but the first are predicted.
    """
    ways = {"with sizes": rows, "without sizes": [{**row, "input_bytes": None} for row in rows]}
    predictions = {way: list_observations(way_rows) for way, way_rows in ways.items()}
    facts: dict[str, Any] = {}
    for number, row in enumerate(rows):
        texts = [f"{format_bytes(row['input_bytes'])}, {row['training_s']} s"]
        if number:
            texts += [f"predicted {way} {predictions[way][number - 1].predicted_s:.1f} s" for way in ways]
        facts[f"training {number + 1}"] = ", ".join(texts)
    for way, observations in predictions.items():
        accuracy = measure_accuracy(observations)
        assert accuracy
        errors = [max(job.actual_s / job.predicted_s, job.predicted_s / job.actual_s) - 1 for job in observations]
        half = max(1, len(errors) // 2)
        halves = {"first half": errors[:half], "second half": errors[half:] or errors}
        facts |= {
            f"{way}, without correction: error in the {name}, %": _compute_median(halves[name]) for name in halves
        }
        corrected = {"first half": [accuracy.first_error], "second half": [accuracy.last_error]}
        facts |= {f"{way}, corrected: error in the {name}, %": _compute_median(corrected[name]) for name in corrected}
    return facts


def _compute_median(errors: Sequence[float]) -> float:
    return round(100 * median(errors), 1)


def _upload_code(server: Server) -> None:
    """Upload the training script and the files of its bundle."""
    folder, archive = PROJECT / "pipelines/defaults", io.BytesIO()
    files = {"training.py": folder / "training.py", **locate_bundle(folder / "bundle.txt", PROJECT)}
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, path in files.items():
            tar.add(path, name)
    s3 = server.create_client("s3")
    s3.create_bucket(Bucket="bench")
    s3.put_object(Bucket="bench", Key="source.tar.gz", Body=archive.getvalue())


def _write_month(folder: Path, month: int) -> Path:
    """Write the rows of a month, as the source has them."""
    from pipelines.datasets.flights.source import open_source

    source, path = open_source(), folder / f"{month:02d}.parquet"
    days = [dt.date(YEAR, month, day) for day in range(1, calendar.monthrange(YEAR, month)[1] + 1)]
    pq.write_table(pa.concat_tables([source.read(day).read_all() for day in days]), path, compression="zstd")
    return path


def _build_features(folder: Path, month: int, month_files: Sequence[Path]) -> Path:
    """Build the features of all days from January until the end of a month, with the step `preprocess`."""
    from pipelines.features.pinned_rows import PinnedRows, pack
    from pipelines.steps.preprocess import PreprocessSpec
    from pipelines.steps.preprocess import run as preprocess
    from pipelines.steps.snapshot import SnapshotResult

    last = dt.date(YEAR, month, calendar.monthrange(YEAR, month)[1])
    holdout_first = last - (HOLDOUT_DAYS - 1) * ONE_DAY
    # A label is known one day after its row. So the last usable day is two days before as_of, or before the holdout.
    snapshot = SnapshotResult(
        dataset="flights",
        table="flights",
        snapshot_id=1,
        as_of=last + 2 * ONE_DAY,
        train_first=dt.date(YEAR, 1, 1),
        train_last=holdout_first - 2 * ONE_DAY,
        holdout_first=holdout_first,
        holdout_last=last,
        missing_days=0,
        rows=sum(pq.read_metadata(path).num_rows for path in month_files),
    )
    window, features = folder / f"window-{month}", folder / f"features-{month}"
    pack(PinnedRows(snapshot, [str(path) for path in month_files], pq.read_schema(month_files[0])), window)
    preprocess(PreprocessSpec(window=window, features=features, validation_days=VALIDATION_DAYS))
    return features


def _train(server: Server, month: int, features: Path) -> dict[str, Any]:
    """Train on the features as a job; return its description.

    Raises:
        RuntimeError: the job failed.
    """
    s3, sagemaker = server.create_client("s3"), server.create_client("sagemaker")
    for channel in CHANNELS:
        s3.upload_file(str(features / channel / "data.parquet"), "bench", f"{month}/{channel}/data.parquet")
    request = _build_request(server, month)
    size = measure_channels(s3, list_channels(request) or {})
    request["Environment"] = {**request["Environment"], INPUT_BYTES_VARIABLE: str(size)}
    sagemaker.create_training_job(**request)

    def find_ended_job() -> dict[str, Any] | None:
        job = dict(sagemaker.describe_training_job(TrainingJobName=request["TrainingJobName"]))
        return job if job["TrainingJobStatus"] in FINAL_STATUSES else None

    job: dict[str, Any] = wait_for(find_ended_job, 0.5)
    if job["TrainingJobStatus"] != "Completed":
        raise RuntimeError(f"training {month} failed: {job.get('FailureReason', '')[-2_000:]}")
    print(f"training {month} of {MONTHS}: {job['TrainingTimeInSeconds']} s", flush=True)
    return job


def _build_request(server: Server, month: int) -> dict[str, Any]:
    hyperparameters = load_section(PROJECT, "train", "flights")["hyperparameters"]
    hyperparameters |= {"num_round": ROUNDS, "early_stopping_rounds": ROUNDS}
    hyperparameters |= {"nthread": 1, "sagemaker_program": "training.py"}
    request = server.build_request(f"flights-{month}")
    sources = {name: {"S3DataType": "S3Prefix", "S3Uri": f"s3://bench/{month}/{name}/"} for name in CHANNELS}
    return {
        **request,
        "HyperParameters": request["HyperParameters"] | {name: str(value) for name, value in hyperparameters.items()},
        "InputDataConfig": [
            {"ChannelName": name, "DataSource": {"S3DataSource": source}} for name, source in sources.items()
        ],
    }


def _charge(server: Server, job: dict[str, Any]) -> None:
    """Write the row of the job to the ledger."""
    share = find_data_wait_share(server.create_client("logs"), job["TrainingJobName"])
    record = Job(**to_training_record(job, restored_checkpoints=[], data_wait_share=share))
    charge_jobs([record], JobPurpose(region="us-east-1", model="flights", dag_id="bench", task_id="train"))
