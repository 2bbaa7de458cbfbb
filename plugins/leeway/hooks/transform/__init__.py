"""Batch transform jobs that score large partitions."""
