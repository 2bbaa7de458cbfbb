"""The code of a dataset that brings none of its own: features, model, training and serving.

A module of the same name in the dataset's package is used instead.
"""
