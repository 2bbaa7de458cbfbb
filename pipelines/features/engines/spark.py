"""Spark, in local mode: as many threads as the machine has cores, one JVM, spilling to LEEWAY_HOME.

Ends as Parquet files that Arrow reads, never as pandas: PySpark 4.0.5 does not know pandas 3.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import ibis
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import DataError, ServiceError, SpecError, StorageError
from pipelines.features.engines import RunExpression, filter_days
from pipelines.settings import settings
from pipelines.system.error_translation import NO_SPACE_TEXTS
from pipelines.window import Days

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = "window_rows"
JAVA = 17
"""Oldest Java that Spark 4.0 runs on."""
MEMORY = "2g"
"""Of the JVM's heap, unless the environment's SPARK_DRIVER_MEMORY says so."""
HINT = "apt-get install openjdk-17-jre-headless, or set JAVA_HOME; or take engine duckdb."


@contextmanager
def open_engine(paths: Sequence[str], schema: pa.Schema, with_nan: bool = False) -> Iterator[RunExpression]:
    """See `pipelines.features.engines.open_engine`. Spark looks for NaN in any case."""
    check_java()
    place = settings().home / "tmp"
    place.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=place, prefix="spark-", ignore_cleanup_errors=True) as made,
        _start_session(Path(made)) as session,
        _translate_errors(),
    ):
        _create_view(session, paths, schema, Path(made))
        rows = ibis.pyspark.connect(session).table(ROWS)
        counter = iter(range(1_000_000))

        def run(expression: Callable[[ibis.Table], ibis.Table], days: Days | None) -> Iterator[pa.RecordBatch]:
            out = Path(made) / f"out-{next(counter)}"
            with _translate_errors():
                # Sorted as a whole: its parts are in order, as their names are.
                query = ibis.to_sql(expression(filter_days(rows, days)), dialect="pyspark")
                session.sql(query).write.parquet(str(out))
            for part in sorted(out.glob("part-*.parquet")):
                yield from pq.ParquetFile(part).iter_batches()
            shutil.rmtree(out)

        yield run


def check_java() -> None:
    """There is a Java that Spark runs on.

    Raises:
        SpecError: there is none, or it is too old. A retry cannot help.
    """
    home = os.environ.get("JAVA_HOME", "")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        where = f"JAVA_HOME is {home}, and has no bin/java" if home else "java is not on the PATH"
        raise SpecError(f"engine spark needs Java {JAVA}, and {where}.", HINT)
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if told.returncode or not version or int(version[1]) < JAVA:
        found = (told.stderr or told.stdout).strip().splitlines()[:1] or [f"exit code {told.returncode}"]
        raise SpecError(f"engine spark needs Java {JAVA} or newer, and {java} says: {found[0]}.", HINT)


@contextmanager
def _start_session(folder: Path) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    told = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", MEMORY),
        "spark.local.dir": str(folder),
        "spark.sql.caseSensitive": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[*]").appName("leeway")
    for name, value in told.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def _create_view(session: SparkSession, paths: Sequence[str], schema: pa.Schema, folder: Path) -> None:
    """Spark's view `ROWS` has the files' rows. By links of plain names: Spark would take some names for patterns."""
    from ibis.backends.pyspark.datatypes import PySparkSchema

    links = folder / "rows"
    links.mkdir()
    for number, path in enumerate(paths):
        (links / f"{number}.parquet").symlink_to(Path(path).absolute())
    try:
        columns = PySparkSchema.from_ibis(ibis.Schema.from_pyarrow(schema))
    except ibis.common.exceptions.IbisTypeError as error:  # times of a day
        raise DataError(f"Spark has no type for a column: {error}.", "Take engine duckdb.") from None
    session.read.schema(columns).parquet(str(links)).createOrReplaceTempView(ROWS)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Within the block, Spark's errors come out as ours, in a line.

    Raises:
        DataError: a value does not fit, or a file is damaged.
        StorageError: the disk is full. A retry can help.
        ServiceError: Spark's JVM has died, of memory for instance. A retry can help.
    """
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
        if any(one in text for one in NO_SPACE_TEXTS):
            raise StorageError("Spark found no space on the disk.", "Free some and run it again.") from None
        if isinstance(error, (Py4JNetworkError, ConnectionError)) or "OutOfMemoryError" in text:
            raise ServiceError(f"Spark has died: {text[:300]}.", "Give it more: SPARK_DRIVER_MEMORY=4g.") from None
        raise DataError(f"Spark refuses: {text[:600]}", "Engine duckdb may say more.") from None
