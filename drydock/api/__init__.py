"""The HTTP server: SageMaker's operations for jobs, drydock's own pages, and moto for everything else."""
