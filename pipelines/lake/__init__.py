"""The lake: Apache Iceberg tables, written one partition (an hour, a day or a month) at a time.

Every write of a partition is one commit: readers see either its old rows or its new rows. If a writer dies, the old
rows stay. The catalog is SQLite under LEEWAY_HOME, unless pyiceberg's own configuration
(`PYICEBERG_CATALOG__LEEWAY__URI` and the like, or ~/.pyiceberg.yaml) names another catalog: Glue, REST or PostgreSQL.
"""

from pipelines.lake.commits import (
    DATE_COLUMN,
    DIGEST_PROPERTY,
    NAMESPACE,
    PARTITION_PROPERTY,
    ChangeCounts,
    Commit,
    retry_conflicts,
)
from pipelines.lake.history import expire_old_snapshots
from pipelines.lake.lake import Lake
from pipelines.system.duckdb_session import connect

__all__ = [
    "DATE_COLUMN",
    "DIGEST_PROPERTY",
    "NAMESPACE",
    "PARTITION_PROPERTY",
    "ChangeCounts",
    "Commit",
    "Lake",
    "connect",
    "expire_old_snapshots",
    "retry_conflicts",
]
