"""The statistics under the promotion gates: how sure a metric, or a difference of two models, is.

Pure: arrays in, numbers out.
"""
