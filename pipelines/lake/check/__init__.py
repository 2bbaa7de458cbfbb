"""Compare catalog, metadata, manifests, files and row counts of the lake, and find what is lost or damaged."""

from pipelines.lake.check.findings import Finding, LakeReport
from pipelines.lake.check.lake_check import Scope, check_lake

__all__ = ["Finding", "LakeReport", "Scope", "check_lake"]
