"""Advise a person what to do about lost or damaged files of the lake."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.dataset import Dataset
from pipelines.lake.check.findings import Finding
from pipelines.lake.partitions import parse_partition_text

REPAIR = "Run `python -m pipelines lake check --repair`, or restore a backup: `make restore`."
"""Advice about a catalog, or about its entry of a table."""
BACKUP = "restore it from a backup: `python -m pipelines lake check --repair --backup FILE`, or `make restore`"
OLDER = "Only older snapshots need it: model versions that were trained on them cannot be reproduced"
STEPS = {
    "training_costs": "`python -m pipelines costs sweep` charges the jobs that SageMaker still knows",
    "profiles": "run the step `profile` for the days of the month",
    "drift_results": "run the step `drift` for the day",
}
"""Table to the instruction that writes its rows again."""

ONLINE_SUFFIXES = ("_requests", "_request_outcomes", "_skew")
"""Ends of the names of the tables about requests that an endpoint answered."""


def advise(finding: Finding, datasets: Sequence[Dataset]) -> str:
    """Return one or two sentences of advice."""
    if finding.kind in ("catalog", "table"):
        return REPAIR
    step = _find_step(finding, datasets) if finding.kind == "rows" else ""
    if not finding.is_current:
        return f"{OLDER}. To get it back, {BACKUP}."
    # Only the first letter becomes a capital. `str.capitalize` would also make the other letters small.
    return f"{step[:1].upper()}{step[1:]}, or {BACKUP}." if step else f"{BACKUP[:1].upper()}{BACKUP[1:]}."


def _find_step(finding: Finding, datasets: Sequence[Dataset]) -> str:
    """Return the instruction that writes the rows again; empty if no command can."""
    for dataset in datasets:
        tables = (dataset.staging, dataset.table, dataset.quarantine, dataset.predictions, dataset.outcomes)
        online_tables = [f"{dataset.name}{suffix}" for suffix in ONLINE_SUFFIXES]
        if finding.table not in (*tables, *online_tables):
            continue
        partition, values = parse_partition_text(finding.partition, dataset.partition)
        options = f"--dataset {dataset.table} --partition {partition}"
        if finding.table == dataset.staging:
            command = f"`python -m pipelines ingest {options}`, or `sync --watermark ''`"
            return f"write the current rows of the source: {command}"
        if finding.table in (dataset.table, dataset.quarantine):
            return f"judge the staged rows by the current suite: `python -m pipelines validate {options}`"
        if finding.table in online_tables and values:
            return f"run the DAG {values[0]}_serving_monitor for {partition}, or its steps"
        options = f"--dataset {dataset.name} --partition {partition}"
        if finding.table == dataset.predictions and len(values) == 2:
            model, version = values
            return f"`python -m pipelines score {options} --model {model} --version {version}`"
        if finding.table == dataset.outcomes and values:
            return f"`python -m pipelines outcomes {options} --model {values[0]}`"
    return STEPS.get(finding.table, "")
