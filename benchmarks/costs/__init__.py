"""Benchmarks of the decisions about costs."""
