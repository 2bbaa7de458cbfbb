"""Save a model as a package for MLflow, and check a package: its files, its libraries, and that it loads alone."""
