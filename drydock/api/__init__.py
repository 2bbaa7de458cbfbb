"""The HTTP side: SageMaker's API calls for jobs, drydock's own pages, and what moto is asked to answer."""
