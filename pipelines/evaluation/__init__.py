"""Evaluate a candidate: metrics, statistics, gates and the report."""
