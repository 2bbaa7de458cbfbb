"""Provide the default code of a dataset: features, model, training and serving.

A module of the same name in the dataset's package is used instead.
"""
