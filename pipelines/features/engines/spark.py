"""Run expressions with Spark in local mode: one JVM with a thread for each core, which spills to LEEWAY_HOME.

Results go through Parquet files that Arrow reads, not through pandas: PySpark 4.0.5 does not support pandas 3.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import ibis
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import DataError, ServiceError, SpecError, StorageError
from pipelines.features.engines import RunExpression, filter_days
from pipelines.system.error_translation import NO_SPACE_TEXTS
from pipelines.system.temporary_folders import make_temporary_folder
from pipelines.window import Days

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = "window_rows"
"""Name of the view of the rows of all files."""
OLDEST_JAVA = 17
"""Oldest version of Java that Spark 4.0 runs on."""
HEAP_SIZE = "2g"
"""Size of the JVM's heap, if the environment does not set SPARK_DRIVER_MEMORY."""
JAVA_HINT = "Run `apt-get install openjdk-17-jre-headless`, set JAVA_HOME, or use engine duckdb."


@contextmanager
def open_engine(paths: Sequence[str], schema: pa.Schema) -> Iterator[RunExpression]:
    """Start Spark for the rows of Parquet files: see `pipelines.features.engines.open_engine`."""
    check_java()
    with (
        make_temporary_folder("spark-") as folder,
        _start_session(folder) as session,
        _translate_errors(),
    ):
        _create_view(session, paths, schema, folder)
        rows = ibis.pyspark.connect(session).table(ROWS)
        result_numbers = itertools.count()

        def run(expression: Callable[[ibis.Table], ibis.Table], days: Days | None) -> Iterator[pa.RecordBatch]:
            result_folder = folder / f"out-{next(result_numbers)}"
            with _translate_errors():
                # If the expression sorts its rows, the part files are sorted, too, in the order of their names.
                query = ibis.to_sql(expression(filter_days(rows, days)), dialect="pyspark")
                session.sql(query).write.parquet(str(result_folder))
            for part_file in sorted(result_folder.glob("part-*.parquet")):
                yield from pq.ParquetFile(part_file).iter_batches()
            shutil.rmtree(result_folder)

        yield run


def check_java() -> None:
    """Check that Java is installed, in a version on which Spark runs.

    Raises:
        SpecError: Java is not installed, or is too old. A retry cannot help.
    """
    home = os.environ.get("JAVA_HOME", "")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        problem = f"JAVA_HOME is {home}, which has no bin/java" if home else "java is not on the PATH"
        raise SpecError(f"engine spark needs Java {OLDEST_JAVA}, but {problem}.", JAVA_HINT)
    process = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', process.stderr + process.stdout)
    if process.returncode or not version or int(version[1]) < OLDEST_JAVA:
        lines = (process.stderr or process.stdout).strip().splitlines() or [f"exit code {process.returncode}"]
        raise SpecError(f"engine spark needs Java {OLDEST_JAVA} or newer, but {java} reports: {lines[0]}.", JAVA_HINT)


@contextmanager
def _start_session(folder: Path) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    options = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", HEAP_SIZE),
        "spark.local.dir": str(folder),
        "spark.sql.caseSensitive": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[*]").appName("leeway")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def _create_view(session: SparkSession, paths: Sequence[str], schema: pa.Schema, folder: Path) -> None:
    """Create Spark's view `ROWS` of the files.

    The view reads links with simple names, because Spark interprets some characters in the names of files as patterns.
    """
    from ibis.backends.pyspark.datatypes import PySparkSchema

    links = folder / "rows"
    links.mkdir()
    for number, path in enumerate(paths):
        (links / f"{number}.parquet").symlink_to(Path(path).absolute())
    try:
        columns = PySparkSchema.from_ibis(ibis.Schema.from_pyarrow(schema))
    except ibis.common.exceptions.IbisTypeError as error:  # for example a time of day
        raise DataError(f"Spark has no type for a column: {error}.", "Use engine duckdb.") from None
    session.read.schema(columns).parquet(str(links)).createOrReplaceTempView(ROWS)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translate errors of Spark that the block raises into Leeway's errors.

    Raises:
        StorageError: the disk is full. A retry can help.
        ServiceError: Spark's JVM has ended, or has no memory left. A retry can help.
        DataError: Spark failed for any other reason: for example, a value does not fit its type, or a file is damaged.
            A retry cannot help.
    """
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
        if any(fragment in text for fragment in NO_SPACE_TEXTS):
            raise StorageError("Spark found no space on the disk.", "Free some space and run it again.") from None
        if isinstance(error, (Py4JNetworkError, ConnectionError)) or "OutOfMemoryError" in text:
            raise ServiceError(
                f"Spark's JVM has ended, or has no memory left: {text[:300]}.",
                "Give it more memory: SPARK_DRIVER_MEMORY=4g.",
            ) from None
        raise DataError(f"Spark failed: {text[:600]}", "Try engine duckdb: its error may say more.") from None
