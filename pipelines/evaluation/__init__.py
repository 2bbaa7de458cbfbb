"""Judgement of a candidate: metrics, statistics, gates and the report."""
