"""Compare catalog, metadata, manifests, files and row counts of the lake, and find what is lost or damaged."""

from pipelines.lake.check.checking import Scope, check_lake
from pipelines.lake.check.findings import Finding, LakeReport

__all__ = ["Finding", "LakeReport", "Scope", "check_lake"]
