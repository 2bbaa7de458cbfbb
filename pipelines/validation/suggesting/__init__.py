"""Drafts of suites: what a window of a table looks like, and the expectations that say so."""

from pipelines.validation.suggesting.draft import draft
from pipelines.validation.suggesting.profile import Column, Profile, profiled

__all__ = ["Column", "Profile", "draft", "profiled"]
