"""Run steps of `pipelines` as child processes: their credentials, results, asset events and metrics."""
