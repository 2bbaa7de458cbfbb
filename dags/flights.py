"""Create the DAGs of the model flights: will a flight arrive more than 15 minutes late?

The package `leeway.lifecycle` defines them: flights_ingest, flights_withdraw, flights_train, flights_tune,
flights_score, flights_monitor, flights_rollback, flights_reset_breaker, flights_deploy, flights_serving_monitor and
flights_materialize.
"""

import datetime as dt

from leeway.lifecycle import create_lifecycle_dags

# In its safe mode, Airflow skips a file without the word "airflow", and reports no error. This comment has the word.
create_lifecycle_dags(
    model="flights",
    dataset="flights",
    start=dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    end=dt.datetime(2013, 12, 31, tzinfo=dt.UTC),
    deploy=True,
    materialize=True,
    tune=True,
    check_interval_s=5,
)
