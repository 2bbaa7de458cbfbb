"""The HTTP server: SageMaker's operations that drydock runs, drydock's own requests, and moto for everything else."""
