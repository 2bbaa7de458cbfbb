"""Create the DAGs of the model flight_delay for Airflow: by how many minutes will a flight be late?

The model uses the days that flights_ingest publishes (dags/flights.py).
"""

import datetime as dt

from leeway.lifecycle import create_lifecycle_dags

# In its safe mode, Airflow skips a file without the word "airflow", and reports no error. This comment has the word.
create_lifecycle_dags(
    model="flight_delay",
    dataset="flight_delay",
    rows_from="flights",
    start=dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    end=dt.datetime(2013, 12, 31, tzinfo=dt.UTC),
    check_interval_s=5,
)
