"""Create the DAGs of the model flight_status for Airflow: will a flight be on time, late or cancelled?

The model uses the days that flights_ingest publishes (dags/flights.py).
"""

import datetime as dt

from leeway.lifecycle import create_lifecycle_dags

# In its safe mode, Airflow skips a file without the word "airflow", and reports no error. This comment has the word.
create_lifecycle_dags(
    model="flight_status",
    dataset="flight_status",
    rows_from="flights",
    start=dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    end=dt.datetime(2013, 12, 31, tzinfo=dt.UTC),
    check_interval_s=5,
)
