"""AWS Batch's queues for SageMaker training jobs, with a scheduler that starts their jobs (service jobs)."""
