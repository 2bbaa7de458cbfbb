"""Benchmarks and simulations of decisions: intervals and verdicts of the gates, findings and alarms of drift."""
