"""Save a model as a package for MLflow, and check its files, its libraries, and that it loads without the project."""
