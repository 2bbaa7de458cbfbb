"""Make small features, and a quick training script for searches: it needs no library, and starts in 20 ms."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.container.local_job import Script
from pipelines.tuning.plan import PlanSpec
from pipelines.tuning.request import Request

FIRST_DAY = dt.date(2013, 1, 1)
QUICK_SCRIPT = """
import os, signal, sys, time
from pathlib import Path
values = dict(zip(sys.argv[1::2], sys.argv[2::2]))
x, rounds, mode = float(values["--x"]), int(values["--num_round"]), values.get("--mode", "")
output, checkpoint = Path(os.environ["SM_OUTPUT_DATA_DIR"]), Path(os.environ["SM_CHECKPOINT_DIR"], "round")
diary = Path(os.environ["SM_CHANNEL_TRAIN"], "diary")
job = os.environ["TRAINING_JOB_NAME"]
begin = int(checkpoint.read_text()) if checkpoint.exists() else 0
def note(text):
    with diary.open("a") as file:
        file.write(f"{job} {x!r} {text}\\n")
def stop(*_):
    note("stopped")
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
note(f"start {begin}")
if mode == "crash" or (mode == "crash some" and x < 0.5):
    output.parent.joinpath("failure").write_text("x is wrong")
    sys.exit(1)
for number in range(begin, rounds):
    time.sleep(float(values.get("--round_s", 0)))
    loss = (x - 0.3) ** 2 + 1 / (number + 1)
    if mode == "nan" and x < 0.5 and number == 2:
        loss = float("nan")
    if mode == "all nan":
        loss = float("nan")
    if mode != "silent":
        print(f"[{number}]\\ttuning-objective:{loss!r}", flush=True)
    new = checkpoint.with_name("new")
    new.write_text(str(number + 1))
    new.replace(checkpoint)  # a signal may come between the creation of a file and the writing
if mode != "silent":
    best_loss = loss if mode == "all nan" else (x - 0.3) ** 2 + 1 / rounds
    print(f"tuning-objective:{best_loss!r}", flush=True)
note("end")
(output / "resources.json").write_text("{}")
"""
"""Loss (x - 0.3)^2 + 1 / rounds. It writes each start and each end into the file `diary` of its channel."""
SPACE = {"x": {"low": 0.0, "high": 1.0}}


def make_request(folder: Path, fixed: Mapping[str, Any] | None = None, **plan: Any) -> Request:
    """Make the request of a search that runs `QUICK_SCRIPT`; its state is in LEEWAY_HOME/tuning/t."""
    script, channel = folder / "quick.py", folder / "channel"
    channel.mkdir(parents=True, exist_ok=True)
    script.write_text(QUICK_SCRIPT)
    values = {"num_round": 6, **(fixed or {})}
    spec = PlanSpec.parse({"space": SPACE, **plan}, "tune")
    channels = {"train": channel, "validation": channel}
    return Request("t", Script("toy", script, {}, "commit"), channels, spec, values, int(values["num_round"]))


def read_diary(folder: Path) -> list[tuple[str, str, str]]:
    """Return job, value of x, and event of each line that the trials wrote."""
    path = folder / "channel" / "diary"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(job, x, event) for job, x, event in (line.split(" ", 2) for line in lines)]


def write_features(
    folder: Path,
    days: int = 16,
    rows_per_day: int = 40,
    validation_days: int = 4,
    task: str = "binary",
    **description: Any,
) -> None:
    """Write train/ and validation/ of a small dataset, in which x and the category a raise the label."""
    generator, count = np.random.default_rng(0), days * rows_per_day
    x, category = generator.normal(size=count), generator.choice(list("abc"), count)
    latent = x + generator.normal(size=count) + (category == "a")
    labels = {"binary": latent > 0.3, "regression": latent, "multiclass": np.where(latent > 1, "high", "low")}
    columns = {
        "date": [FIRST_DAY + dt.timedelta(number // rows_per_day) for number in range(count)],
        "id": list(range(count)),
        "x": x,
        "c": category,
        "late": labels[task],
    }
    metadata = {
        "dataset": "flights",
        "key": ["date", "id"],
        "label": "late",
        "task": task,
        "features": {"x": "number", "c": "category"},
        "day": "date",
        "unit": "day",
        "label_delay_days": 1,
        **description,
    }
    table = pa.table(columns).replace_schema_metadata({"leeway": json.dumps(metadata)})
    cut = (days - validation_days) * rows_per_day
    for name, part in (("train", table.slice(0, cut)), ("validation", table.slice(cut))):
        (folder / name).mkdir(parents=True)
        pq.write_table(part, folder / name / "data.parquet")
