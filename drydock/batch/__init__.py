"""AWS Batch's queues for SageMaker training jobs: service jobs, which a scheduler starts as training jobs."""
