"""Run a step as a command: the fields of its Spec are the options."""
