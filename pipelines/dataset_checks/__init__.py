"""Check a dataset: its features do not leak, are equal on each engine, and its training survives an interruption.

The tests of a project and `python -m pipelines check` use these functions.
"""
