"""The statistics behind the gates: estimates of metrics and of differences between models, and tests of them.

Pure functions: arrays in, numbers out.
"""
