"""The HTTP server: SageMaker's operations for jobs, drydock's own endpoints, and moto for everything else."""
