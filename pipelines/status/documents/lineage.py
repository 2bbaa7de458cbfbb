"""Define the lineage of a version: what it was made from, and what it was used for."""

from __future__ import annotations

import datetime as dt

from pipelines.status.documents.json_object import JsonObject


class ServingPeriod(JsonObject):
    """A period in which an endpoint served a version."""

    endpoint: str
    """Name of the endpoint."""
    since: dt.datetime
    """When the version was deployed, UTC."""
    until: dt.datetime | None
    """When another version was deployed, or the endpoint was deleted, UTC; null if the version is served."""


class ScoredDays(JsonObject):
    """The days of data that a version scored, as far as their rows have a profile."""

    table: str
    """Table of the predictions."""
    first: dt.date
    """First of the days."""
    last: dt.date
    """Last of the days."""
    days: int
    """Number of the days."""
    rows: int
    """Number of rows."""


class VersionLineage(JsonObject):
    """The data and code that a version was trained from, and the days and endpoints that used it."""

    version: str
    """Number of the version."""
    registered_at: dt.datetime | None
    """When it was registered, UTC; null if that was not recorded."""
    as_of: str
    """As-of date of its training; empty if it is not known."""
    table: str
    """Table of the lake that it was trained on; empty if the registration does not say it. Then the other facts about
    data, code and training are empty, too."""
    snapshot_id: str
    """Iceberg snapshot at which the table was read."""
    training_days: str
    """Days of the training, FIRST to LAST."""
    rows_train: str
    """Number of rows of the training."""
    holdout_days: str
    """Days on which it was judged, FIRST to LAST."""
    rows_holdout: str
    """Number of rows on which it was judged."""
    data_version: str
    """Beginning of the SHA-256 of its features, which DVC stores."""
    dvc_lock: str
    """SHA-256 of dvc.lock; `none` outside of DVC."""
    git_commit: str
    """Commit of the code; it ends with -dirty if the code differed from the commit."""
    training_job: str
    """Name of the training job."""
    run: str
    """DAG run of the training, DAG/RUN; empty outside of Airflow."""
    model_digest: str
    """SHA-256 of the model's files."""
    report_url: str
    """Address of the report of its evaluation; empty if there is none."""
    mlflow_url: str
    """Its page in MLflow; empty if MLflow has no web pages."""
    data_url: str
    """Page of the table in the data docs; empty if the table is not known."""
    scored: ScoredDays | None
    """Days that it scored; null if no day that it scored has a profile."""
    services: list[ServingPeriod]
    """Periods in which endpoints served it, oldest first."""
