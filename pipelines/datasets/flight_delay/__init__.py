"""The minutes by which a flight arrives late, or early: the rows and features of `flights` with another label."""

from dataclasses import replace

from pipelines.datasets.flights import DATASET as FLIGHTS

DATASET = replace(FLIGHTS, name="flight_delay", label="arr_delay", task="regression", rows_from="flights")
