"""The provider's description, which Airflow reads through the entry point apache_airflow_provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leeway import __version__

INTEGRATION = "Leeway"
OPERATORS = (
    *("approval", "backfill", "batch_score", "cheap_hours", "check_lake", "collect", "deploy", "drift", "dvc_repro"),
    *("endpoint_rollback", "evaluate", "gate", "guard", "ingest", "list_versions", "materialize", "meter_endpoints"),
    *("mirror", "outcomes", "profile", "promote", "record_outcome", "reset_breaker", "rollback"),
    *("score", "shadow", "showback", "skew"),
    *("spark_preprocess", "spot_training", "step", "stop_idle", "sweep_idle", "sync", "tuning", "undeploy", "validate"),
    "withdraw",
)
"""The modules of `leeway.operators` that have operators."""


def get_provider_info() -> dict[str, Any]:
    """Return what Airflow shows of the provider, and the classes that it loads from the provider."""
    return {
        "package-name": "leeway",
        "name": "Leeway",
        "description": "An ML lifecycle: ingest, validate, version, train on spot, gate, promote, retrain on drift.",
        "versions": [__version__],
        "integrations": [{"integration-name": INTEGRATION, "tags": ["software"]}],
        "operators": _describe_modules([f"leeway.operators.{name}" for name in OPERATORS]),
        "sensors": _describe_modules(["leeway.operators.cheap_hours", "leeway.operators.drift"]),
        "hooks": _describe_modules(["leeway.hooks.step.hook"]),
        "triggers": _describe_modules(
            [
                "leeway.triggers.champion",
                "leeway.triggers.cheap_hours",
                "leeway.triggers.deployment",
                "leeway.triggers.job",
                "leeway.triggers.queued_job",
                "leeway.triggers.shadow",
            ]
        ),
        "extra-links": [
            "leeway.links.data_docs.DataDocsLink",
            "leeway.links.drift.DriftLink",
            "leeway.links.report.ReportLink",
        ],
        "notifications": ["leeway.notifiers.lifecycle.LifecycleNotifier"],
        "executors": ["leeway.executor.RestartableLocalExecutor"],
        # Leeway has no connection types and no options in airflow.cfg. Its plugin is not listed here, because Airflow
        # finds it by its entry point, and would load a listed plugin a second time if `[core] lazy_load_providers` is
        # off.
    }


def _describe_modules(modules: Sequence[str]) -> list[dict[str, Any]]:
    return [{"integration-name": INTEGRATION, "python-modules": list(modules)}]
