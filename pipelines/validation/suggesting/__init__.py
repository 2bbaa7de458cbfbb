"""Draft suites: summarize a window of a table, and write expectations that its partitions meet."""

from pipelines.validation.suggesting.draft import draft_suite
from pipelines.validation.suggesting.summary import ColumnSummary, TableSummary, summarize_file, summarize_table

__all__ = ["ColumnSummary", "TableSummary", "draft_suite", "summarize_file", "summarize_table"]
