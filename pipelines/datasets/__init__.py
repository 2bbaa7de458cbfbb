"""The example datasets: flights, and the weather that flights are joined with."""
