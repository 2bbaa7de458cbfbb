"""Draft suites: profile a window of a table, and write expectations that its partitions meet."""

from pipelines.validation.suggesting.draft import draft_suite
from pipelines.validation.suggesting.profile import Column, Profile, profile_table

__all__ = ["Column", "Profile", "draft_suite", "profile_table"]
