"""Measure and simulate decisions: intervals and verdicts of the gates, findings and alarms of drift, A/B tests."""
