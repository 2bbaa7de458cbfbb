"""Divide the training features into parts, so that each host of a training on several hosts reads only its share."""

from __future__ import annotations

from pathlib import Path

from pipelines.contract import Result, Spec
from pipelines.system.log import log


class DivideSpec(Spec):
    """The features to divide, and the folder of the parts."""

    channel: Path = Path("data/features/train")
    """Folder with data.parquet, as `preprocess` wrote it."""
    parts: Path = Path("data/parts/train")
    """Folder to write; what was there is replaced."""


class DivideResult(Result):
    """The parts of a feature file."""

    parts: Path
    """Folder of the parts: part-00.parquet, part-01.parquet, and so on."""
    count: int
    """Number of parts that have rows, at most 60. A training can have at most one host for each part."""
    rows: int
    """Number of rows of all parts together."""


def run(spec: DivideSpec) -> DivideResult:
    """Write each row to one of 60 parts, by a hash of its key. Idempotent: equal features give equal bytes.

    Raises:
        DataError: the features cannot be read, or lack a column. A retry cannot help.
    """
    from pipelines.features.parts import divide_file
    from pipelines.system.files import replace_folder

    with replace_folder(spec.parts) as folder:
        count, rows = divide_file(spec.channel, folder)
    log.info("divided %d rows of %s into %d parts", rows, spec.channel, count)
    return DivideResult(parts=spec.parts, count=count, rows=rows)
