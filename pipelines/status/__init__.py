"""Collect the state of the models, of their data and of their costs, and write it as JSON documents."""
