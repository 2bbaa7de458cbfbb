"""Write the files of a Batch Transform request for a partition, and read the scores of its response."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd

import pipelines
from pipelines import container
from pipelines.container import inference, serving
from pipelines.errors import ConflictError, DataError
from pipelines.score_columns import SCORE

PART_ROWS = 250_000
"""Largest number of rows in one file of a request. The files are divided among the machines of a job."""
RESPONSE_SUFFIX = ".out"
"""Suffix that Batch Transform appends to the name of an input file, to name the file with its scores."""


def list_features(package: Path) -> list[str]:
    """List the features of a packaged model, in the order of its signature."""
    signature = mlflow.models.get_model_info(str(package)).signature
    return [str(column.name) for column in signature.inputs.inputs]


def list_score_classes(package: Path) -> list[str]:
    """List the classes or quantiles of a packaged model, in the order of its scores; empty if a score is one number."""
    outputs = mlflow.models.get_model_info(str(package)).signature.outputs
    names = [str(column.name) for column in outputs.inputs] if outputs else []
    return [] if names == [SCORE] else names


def pack_model(folder: Path, archive: Path, model: str, version: str) -> None:
    """Write the model.tar.gz of a package, in the form that a SageMaker container expects.

    Equal packages of a version give byte-identical archives. This function adds to the folder `code`:
    inference.py, the modules of Leeway that it imports, requirements.txt, and the names of model and version.

    Args:
        folder: folder of the checked package; see `pipelines.registry.artifacts.open_package`.
        archive: file to write.
        model: registered model.
        version: number of the version.
    """
    (folder / "code").mkdir(exist_ok=True)
    names = json.dumps({"model": model, "version": version})
    (folder / "code" / inference.NAMES_FILE).write_text(names, encoding="utf-8")
    shutil.copyfile(inference.__file__, folder / "code" / "inference.py")
    _copy_serving_code(folder / "code")
    shutil.copyfile(folder / "requirements.txt", folder / "code" / "requirements.txt")
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    with (
        archive.open("wb") as output,
        gzip.GzipFile(filename="", fileobj=output, mode="wb", mtime=0) as gzip_file,
        tarfile.open(fileobj=gzip_file, mode="w") as tar,
    ):
        for path in files:
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                tar.addfile(entry, file)


def _copy_serving_code(folder: Path) -> None:
    """Copy `pipelines.container.serving` to the folder, and those `__init__.py` of its parents that are missing."""
    target = folder / "pipelines" / "container" / "serving"
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(Path(serving.__file__).parent.glob("*.py")):
        shutil.copyfile(path, target / path.name)
    for package, parent in ((container, target.parent), (pipelines, target.parent.parent)):
        if not (parent / "__init__.py").exists():
            shutil.copyfile(str(package.__file__), parent / "__init__.py")


def write_request(frames: Iterable[pd.DataFrame], features: Sequence[str], folder: Path) -> str:
    """Write the features of all rows as JSON lines to files in the folder, in the order of the rows.

    Returns:
        The name of the request, ROWS-DIGEST: the number of rows, and the SHA-256 of their lines.

    Raises:
        KeyError: the frames lack a feature.
    """
    row_count, digest = 0, hashlib.sha256()
    folder.mkdir(parents=True, exist_ok=True)
    lines = (line for frame in frames for line in _format_json_lines(frame, features))
    for first_line in lines:
        with (folder / f"part-{row_count // PART_ROWS:05d}.jsonl").open("wb") as file:
            for line in itertools.chain([first_line], itertools.islice(lines, PART_ROWS - 1)):
                file.write(line)
                digest.update(line)
                row_count += 1
    return f"{row_count}-{digest.hexdigest()}"


class Response:
    """The scores in a job's output. An object of this class takes the place of a model: it is a function of rows.

    Each call takes the next rows, and returns their scores. Together, the rows must be those of the request, in its
    order.

    Args:
        folder: folder of the job's output.
        request_name: name of the request, as `write_request` returned it.
        features: features in the request, in its order.
        classes: classes or quantiles of the model, in the order of its scores; empty if a score is one number.

    Raises:
        DataError: the job returned more or fewer scores than the request has rows. A retry cannot help.
    """

    def __init__(self, folder: Path, request_name: str, features: Sequence[str], classes: Sequence[str] = ()) -> None:
        self._classes = classes
        self._request_name, self._features, self._digest = request_name, features, hashlib.sha256()
        self._row_count, self._lines = 0, _read_lines(folder)
        row_count, score_count = int(request_name.partition("-")[0]), sum(1 for _ in _read_lines(folder))
        if score_count != row_count:
            message = f"the job got {row_count} rows, but returned {score_count} scores."
            raise DataError(message, "Nothing was written. See the log of the job.")

    def __call__(self, rows: pd.DataFrame) -> Any:
        """Return the scores of the next rows, as the model itself would.

        Raises:
            ConflictError: there are no more scores, since the rows are not those of the request. A retry can help.
        """
        self._row_count += len(rows)
        for line in _format_json_lines(rows, self._features):
            self._digest.update(line)
        scores = [_parse_score(line, len(self._classes)) for line in itertools.islice(self._lines, len(rows))]
        if len(scores) < len(rows):
            self.check_rows()  # it raises an error, because there are more rows than scores
        return pd.DataFrame(scores, columns=list(self._classes)) if self._classes else np.array(scores)

    def check_rows(self) -> None:
        """Check that the rows that were passed so far are all rows of the request, and no others.

        Raises:
            ConflictError: the partition was published again while the job ran. A retry sends a new request.
        """
        if f"{self._row_count}-{self._digest.hexdigest()}" != self._request_name:
            raise ConflictError(
                "the partition was published again while the job ran.", "Its scores belong to the older rows."
            )


def _read_lines(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob(f"*{RESPONSE_SUFFIX}")):
        with path.open(encoding="utf-8") as file:
            yield from file


def _parse_score(line: str, class_count: int) -> float | list[float]:
    """Parse the score of a row: one number, or one for each class or quantile."""
    try:
        value = json.loads(line)
        return [float(value[number]) for number in range(class_count)] if class_count else float(value)
    except (ValueError, TypeError, LookupError):
        raise DataError(
            f"a score in the job's output is not a number: {line[:80]!r}.", "Nothing was written."
        ) from None


def _format_json_lines(rows: pd.DataFrame, features: Sequence[str]) -> Iterator[bytes]:
    columns = [rows[name].astype(object).where(rows[name].notna(), None) for name in features]
    for row in zip(*columns, strict=True):
        yield json.dumps(row, separators=(",", ":")).encode() + b"\n"
