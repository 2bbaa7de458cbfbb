"""Run the command line, python -m pipelines: the steps, and one module for each group of other commands."""
