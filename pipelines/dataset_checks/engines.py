"""Compare the features that DuckDB and Spark build."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.dataset import Dataset
from pipelines.errors import SpecError
from pipelines.feature_files import FILE_NAME
from pipelines.features import building, engines
from pipelines.features.engines import EngineName
from pipelines.system.files import sha256


def explain_missing_spark() -> str:
    """Return why Spark cannot run here, in one line; empty if it can."""
    try:
        import pyspark  # noqa: F401

        from pipelines.features.engines.spark import check_java

        check_java()
    except (ImportError, SpecError) as error:
        return str(error)
    return ""


def find_differences(dataset: Dataset, rows: pa.Table, folder: Path) -> list[str]:
    """Build the features of the rows on both engines, with files in `folder`, and compare these files.

    Returns:
        One line that describes the difference; empty if the files are byte-identical.
    """
    digests = {engine: _build(dataset, rows, engine, folder / engine) for engine in ("duckdb", "spark")}
    if digests["duckdb"] == digests["spark"]:
        return []
    tables = [pq.read_table(folder / engine / FILE_NAME) for engine in digests]
    different_columns = [name for name in tables[0].column_names if not tables[0][name].equals(tables[1][name])]
    if not different_columns:
        return ["DuckDB and Spark write equal values to files with different bytes"]
    return [f"DuckDB and Spark give different values of {', '.join(different_columns)}"]


def _build(dataset: Dataset, rows: pa.Table, engine: EngineName, folder: Path) -> str:
    """Build the features of the rows on an engine; return the SHA-256 of their file."""
    folder.mkdir(parents=True)
    pq.write_table(rows, folder / "rows.parquet")
    with engines.open_engine(engine, [str(folder / "rows.parquet")], rows.schema) as run:
        batches = run(partial(building.build_labelled_features, dataset), days=None)
        building.write_features(batches, building.build_feature_schema(dataset, rows.schema), folder)
    return sha256(folder / FILE_NAME)
