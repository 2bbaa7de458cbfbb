"""Serve a registered version over HTTP: it scores raw rows of the dataset as `score` scores a published day."""
