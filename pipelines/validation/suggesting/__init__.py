"""Drafts of suites: what a window of a table looks like, and the expectations that say so."""

from pipelines.validation.suggesting.draft import draft_suite
from pipelines.validation.suggesting.profile import Column, Profile, profile_table

__all__ = ["Column", "Profile", "draft_suite", "profile_table"]
