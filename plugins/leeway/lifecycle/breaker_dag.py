"""Create the DAG with which a person resets the breaker of a model's trainings."""

from __future__ import annotations

from airflow.sdk import DAG

from leeway.lifecycle.manual_dag import create_manual_dag
from leeway.operators.reset_breaker import ResetBreakerOperator

DOC = """
### Reset the breaker

If several trainings in a row that drift started did not pass the gate, the breaker holds back the next trainings that
drift requests. Trigger the DAG with `why`, once you know the cause. The breaker then counts only trainings that end
after this. The user, the time and the reason are recorded as an event in the lake's table `loop_events`
(`python -m pipelines loop events {model}` lists them).
"""


def create_breaker_dag(*, model: str) -> DAG:
    """Create the DAG MODEL_reset_breaker, which only a person starts.

    Args:
        model: registered model.
    """
    with create_manual_dag(
        f"{model}_reset_breaker",
        doc=DOC.format(model=model),
        description=f"Resets the breaker of the trainings of {model}.",
        tags=[model, "training"],
    ) as dag:
        ResetBreakerOperator(task_id="reset_breaker", model=model, why="{{ params.why }}")
    return dag
