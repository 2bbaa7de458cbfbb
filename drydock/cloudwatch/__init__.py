"""Add to moto's CloudWatch what it lacks: percentiles of metrics, and the evaluation of alarms."""
