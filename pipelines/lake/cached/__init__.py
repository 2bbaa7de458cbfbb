"""Read the lake for many models at a time, and again and again: each table, manifest and data file is read once.

A table's version is identified by the location of its metadata (`locations`). Manifests and data files never change, so
they need not be read again when the table has a new version.
"""

from pipelines.lake.cached.file_records import FileQuery, Record
from pipelines.lake.cached.lake import CachedLake
from pipelines.lake.cached.locations import read_table_locations

__all__ = ["CachedLake", "FileQuery", "Record", "read_table_locations"]
