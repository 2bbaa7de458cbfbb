"""Compute the statistics of the gates: estimate metrics and differences between models, and test them.

Pure functions: arrays in, numbers out.
"""
