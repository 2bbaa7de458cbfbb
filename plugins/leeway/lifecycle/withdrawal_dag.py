"""Create the DAG with which a person withdraws a published partition of a dataset."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from leeway.lifecycle.manual_dag import create_manual_dag
from leeway.operators.withdraw import WithdrawOperator

DOC = """
### Withdraw a published partition of {dataset}

Trigger the DAG with `partition` and `why`. The published rows of the partition, and its outcomes (scores with labels),
are removed; older snapshots of the lake still have them. The user, the time and the reason are recorded as a validation
that failed, so the data docs, drift and the guards of trainings treat the partition as refused.

A later run of `{dataset}_ingest` for the partition publishes it again, if its rows pass. So correct the source first,
or add an expectation to `expectations/{dataset}.json` that such rows fail.
"""


def create_withdrawal_dag(*, dataset: str) -> DAG:
    """Create the DAG DATASET_withdraw, which only a person starts.

    Args:
        dataset: name of the dataset.
    """
    partition = Param(type="string", minLength=1, description="Day, hour or month, as in the data docs.")
    with create_manual_dag(
        f"{dataset}_withdraw",
        doc=DOC.format(dataset=dataset),
        description=f"Withdraws a published partition of {dataset}.",
        tags=[dataset, "data"],
        owner="data",
        params={"partition": partition},
    ) as dag:
        WithdrawOperator(
            task_id="withdraw", dataset=dataset, partition="{{ params.partition }}", why="{{ params.why }}"
        )
    return dag
