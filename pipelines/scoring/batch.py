"""A partition's scores by SageMaker Batch Transform: what is sent, and what comes back."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
from mlflow.entities.model_registry import ModelVersion

from pipelines.container import inference
from pipelines.errors import ConflictError, DataError
from pipelines.registry.mlflow_errors import outages
from pipelines.registry.versions import Registry

PART_ROWS = 250_000
"""Most rows of a file that is sent: the machines of a job share the files."""
ANSWER = ".out"
"""What Batch Transform appends to the name of a file, for what was said of it."""


def features_of(version: ModelVersion) -> list[str]:
    """The features of a version, in the order of its signature."""
    with outages():
        info = mlflow.models.get_model_info(f"models:/{version.name}/{version.version}")
    return [str(column.name) for column in info.signature.inputs.inputs]


def pack(registry: Registry, version: ModelVersion, archive: Path) -> None:
    """The archive is the version's model.tar.gz, as a SageMaker container takes it. Equal packages give equal bytes."""
    with tempfile.TemporaryDirectory(prefix="leeway-") as spare:
        _pack(registry.package(version, Path(spare)), archive)


def _pack(folder: Path, archive: Path) -> None:
    (folder / "code").mkdir(exist_ok=True)
    shutil.copyfile(inference.__file__, folder / "code" / "inference.py")
    shutil.copyfile(folder / "requirements.txt", folder / "code" / "requirements.txt")
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    with (
        archive.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in files:
            member = tarfile.TarInfo(str(path.relative_to(folder)))
            member.size, member.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                tar.addfile(member, file)


def write(frames: Iterable[pd.DataFrame], wanted: Sequence[str], folder: Path) -> str:
    """The rows are in files of the folder, in their order; returns what they are called: ROWS-DIGEST.

    Raises:
        KeyError: the frames lack a feature.
    """
    rows, digest = 0, hashlib.sha256()
    folder.mkdir(parents=True, exist_ok=True)
    lines = (line for frame in frames for line in _lines(frame, wanted))
    for first in lines:
        with (folder / f"part-{rows // PART_ROWS:05d}.jsonl").open("wb") as file:
            for line in itertools.chain([first], itertools.islice(lines, PART_ROWS - 1)):
                file.write(line)
                digest.update(line)
                rows += 1
    return f"{rows}-{digest.hexdigest()}"


class Answers:
    """What a job said of the rows that `write` wrote, in the place of a model: ask it of the same rows in their order.

    Args:
        folder: the job's output.
        asked: what `write` returned.
        wanted: features that were sent.

    Raises:
        DataError: there are more or fewer answers than rows. A retry cannot help.
    """

    def __init__(self, folder: Path, asked: str, wanted: Sequence[str]) -> None:
        self._asked, self._wanted, self._digest = asked, wanted, hashlib.sha256()
        self._rows, self._lines = 0, _answers(folder)
        rows, told = int(asked.partition("-")[0]), sum(1 for _ in _answers(folder))
        if told != rows:
            raise DataError(f"the job was asked of {rows} rows, and said {told} scores.", "Nothing was written.")

    def __call__(self, rows: pd.DataFrame) -> np.ndarray[Any, Any]:
        """The scores of the rows; NaN where there are no more."""
        self._rows += len(rows)
        for line in _lines(rows, self._wanted):
            self._digest.update(line)
        told = [_score(line) for line in itertools.islice(self._lines, len(rows))]
        if len(told) < len(rows):
            self.demand()
        return np.array(told)

    def demand(self) -> None:
        """All the rows that the job was asked of, and no others, got their scores.

        Raises:
            ConflictError: they were written anew while the job ran. A retry asks anew.
        """
        if f"{self._rows}-{self._digest.hexdigest()}" != self._asked:
            raise ConflictError("the rows were published anew while the job ran.", "Its scores are of the older ones.")


def _answers(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob(f"*{ANSWER}")):
        with path.open(encoding="utf-8") as file:
            yield from file


def _score(line: str) -> float:
    try:
        return float(json.loads(line))
    except (ValueError, TypeError):
        raise DataError(f"the job's answer is no number: {line[:80]!r}.", "Nothing was written.") from None


def _lines(rows: pd.DataFrame, wanted: Sequence[str]) -> Iterator[bytes]:
    columns = [rows[name].astype(object).where(rows[name].notna(), None) for name in wanted]
    for row in zip(*columns, strict=True):
        yield json.dumps(row, separators=(",", ":")).encode() + b"\n"
