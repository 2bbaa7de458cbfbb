"""Create the DAG that monitors the requests which an endpoint answered, when the day of their rows is published."""

from __future__ import annotations

import datetime as dt

from airflow.sdk import DAG, Asset, Param, TriggerRule, task_group

from leeway.default_args import build_default_args
from leeway.lifecycle.publication import build_publication_timetable
from leeway.operators.collect import CollectOperator
from leeway.operators.list_versions import ListVersionsOperator
from leeway.operators.outcomes import OutcomesOperator
from leeway.operators.profile import ProfileOperator
from leeway.operators.skew import SkewOperator

DOC = """
### Monitor the requests that the endpoint answered

Each event of the asset `{rows_from}` starts a run: there is one when a day is published, and one each time it is
published again. `versions` lists the versions that may have answered; after a release there are several. For each of
them, `collect` reads the requests for the day's rows that the endpoint captured, and stores their scores in
`{dataset}_requests`; `skew` compares the features and scores of the requests with the lake's, and stores the result in
`{dataset}_skew`.{profile} `outcomes` joins the known labels to the scores, in `{dataset}_request_outcomes`.

* **Paused** at first: it needs an endpoint that captures requests (`capture_percent` in `params.yaml`, section
`serving`). Without requests, `collect` and the tasks after it are skipped, and the log says why.
* **Skew** is an error of serving: of a client, a lookup or `materialize`. The asset `{model}_skew` gets an event,
people are notified, and no training is started. With `on_skew: fail` in section `skew`, the task fails instead.
* **With too few rows** (`min_rows`), nothing is decided, and the task succeeds.
* **Which versions**: the one that served at the beginning of the requests' days, and those that were deployed, or
rolled back, on these days. Trigger the DAG with `version` for another one.
* **Days that were published before**: trigger the DAG with the day as logical date. If their requests came on other
days, give `first_day` and `last_day`.
* **History**: `python -m pipelines skew_history {model}`.
"""
PROFILE_DOC = """
`profile` counts the values by bins, and writes the counts to `profiles`: `{model}_monitor` decides on their drift."""
PARAMS = {
    "version": Param(None, type=["null", "string"], description="Version that answered. Null: all deployed ones."),
    "first_day": Param(
        None,
        type=["null", "string"],
        format="date",
        description="First day of the requests. Null: the day before the run's day.",
    ),
    "last_day": Param(
        None, type=["null", "string"], format="date", description="Last day of the requests. Null: the run's day."
    ),
}

REQUEST_DAYS = {"first_day": "{{ params.first_day }}", "last_day": "{{ params.last_day }}"}
"""Templates of the first and the last day of the requests, for the operators."""


def create_serving_monitor_dag(
    *, model: str, dataset: str, rows_from: str, start: dt.datetime, has_profiles: bool
) -> DAG:
    """Create the DAG MODEL_serving_monitor. An event of the asset ROWS_FROM starts it when a day is published.

    Args:
        model: registered model that the endpoint serves.
        dataset: dataset of the model.
        rows_from: dataset whose published days are compared: `dataset` itself, or the dataset whose rows it uses.
        start: first day.
        has_profiles: whether the requests are profiled, so that MODEL_monitor decides on their drift.
    """
    profile_doc = PROFILE_DOC.format(model=model) if has_profiles else ""
    with DAG(
        dag_id=f"{model}_serving_monitor",
        doc_md=DOC.format(model=model, dataset=dataset, rows_from=rows_from, profile=profile_doc),
        description=f"Compares the requests that the endpoint of {model} answered with a published day of {rows_from}.",
        schedule=build_publication_timetable(rows_from),
        start_date=start,
        catchup=False,
        is_paused_upon_creation=True,  # without an endpoint, each published day would start a run that does nothing
        max_active_runs=4,
        tags=["leeway", model, "serving"],
        params=PARAMS,
        default_args=build_default_args("ml"),
    ) as dag:
        _create_tasks(model, dataset, has_profiles)
    return dag


def _create_tasks(model: str, dataset: str, has_profiles: bool) -> None:
    versions = ListVersionsOperator(
        task_id="versions", dataset=dataset, model=model, version="{{ params.version }}", **REQUEST_DAYS
    )

    @task_group(prefix_group_id=False)
    def monitor_version(version: str) -> None:
        """Collect the requests that one version answered, and compare them with the lake."""
        collect = CollectOperator(task_id="collect", dataset=dataset, model=model, version=version, **REQUEST_DAYS)
        row_arguments = {"model": model, "version": collect.output["version"], "rows": collect.output["rows"]}
        asset = Asset(name=f"{model}_skew", uri=f"x-leeway://skew/{model}")
        SkewOperator(task_id="skew", dataset=dataset, endpoint=collect.output["endpoint"], asset=asset, **row_arguments)
        if has_profiles:
            ProfileOperator(task_id="profile", **row_arguments)

    monitor_version.expand(version=versions.output)
    # If a version answered no request for the day's rows, its `collect` is skipped. One that succeeded is enough.
    outcomes = OutcomesOperator(
        task_id="outcomes",
        dataset=dataset,
        model=model,
        online=True,
        trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
    )
    versions.dag.get_task("collect") >> outcomes
