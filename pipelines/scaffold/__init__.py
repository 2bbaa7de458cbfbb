"""Make the files of a project and of a model from a sample of its data: `python -m pipelines new`."""
