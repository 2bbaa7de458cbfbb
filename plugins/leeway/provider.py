"""The provider's description, which Airflow reads through the entry point apache_airflow_provider."""

from typing import Any

from leeway import __version__


def get_provider_info() -> dict[str, Any]:
    """Return name, version and description of the provider."""
    return {
        "package-name": "leeway",
        "name": "Leeway",
        "description": "An ML lifecycle: ingest, validate, version, train on spot, gate, promote, retrain on drift.",
        "extra-links": [
            "leeway.links.data_docs.DataDocsLink",
            "leeway.links.drift.DriftLink",
            "leeway.links.report.ReportLink",
        ],
        "notifications": ["leeway.notifiers.lifecycle.LifecycleNotifier"],
        "versions": [__version__],
    }
