"""Advise a person what to do about lost or damaged files of the lake."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.dataset import Dataset
from pipelines.lake.check.findings import Finding
from pipelines.lake.partitions import parse_partition_text

REPAIR_ADVICE = "Run `python -m pipelines lake check --repair`, or restore a backup: `make restore`."
"""Advice if the catalog is damaged, or does not list a table, or names an old version of it."""
RESTORE = "restore it from a backup: `python -m pipelines lake check --repair --backup FILE`, or `make restore`"
"""Instruction that restores a file."""
OLDER_SNAPSHOTS = "Only older snapshots need it: model versions that were trained on them cannot be reproduced"
"""Meaning of a finding about a file that the current snapshot does not need."""
INSTRUCTIONS = {
    "training_costs": "`python -m pipelines costs sweep` charges the jobs that SageMaker still knows",
    "profiles": "run the step `profile` for the days of the month",
    "drift_results": "run the step `drift` for the day",
}
"""Maps a table to the instruction that writes its rows again."""

REQUEST_SUFFIXES = ("_requests", "_request_outcomes", "_skew")
"""Suffixes of the names of the tables about requests that an endpoint answered."""


def advise(finding: Finding, datasets: Sequence[Dataset]) -> str:
    """Return what a person can do about a finding, in one or two sentences."""
    if finding.kind in ("catalog", "table"):
        return REPAIR_ADVICE
    instruction = _find_instruction(finding, datasets) if finding.kind == "rows" else ""
    if not finding.is_current:
        return f"{OLDER_SNAPSHOTS}. To get it back, {RESTORE}."
    # Only the first letter becomes a capital. `str.capitalize` would also make the other letters small.
    return (
        f"{instruction[:1].upper()}{instruction[1:]}, or {RESTORE}."
        if instruction
        else f"{RESTORE[:1].upper()}{RESTORE[1:]}."
    )


def _find_instruction(finding: Finding, datasets: Sequence[Dataset]) -> str:
    """Return the instruction that writes the rows again; empty if no command can."""
    for dataset in datasets:
        tables = (dataset.staging, dataset.table, dataset.quarantine, dataset.predictions, dataset.outcomes)
        request_tables = [f"{dataset.name}{suffix}" for suffix in REQUEST_SUFFIXES]
        if finding.table not in (*tables, *request_tables):
            continue
        # The other values are those of the table's other partition columns, if any: a model, perhaps with its version.
        partition, other_values = parse_partition_text(finding.partition, dataset.partition)
        options = f"--dataset {dataset.table} --partition {partition}"
        if finding.table == dataset.staging:
            command = f"`python -m pipelines ingest {options}`, or `sync --watermark ''`"
            return f"write the current rows of the source: {command}"
        if finding.table in (dataset.table, dataset.quarantine):
            return f"validate the ingested rows by the current suite: `python -m pipelines validate {options}`"
        if finding.table in request_tables and other_values:
            return f"run the DAG {other_values[0]}_serving_monitor for {partition}, or its steps"
        options = f"--dataset {dataset.name} --partition {partition}"
        if finding.table == dataset.predictions and len(other_values) == 2:
            model, version = other_values
            return f"`python -m pipelines score {options} --model {model} --version {version}`"
        if finding.table == dataset.outcomes and other_values:
            return f"`python -m pipelines outcomes {options} --model {other_values[0]}`"
    return INSTRUCTIONS.get(finding.table, "")
