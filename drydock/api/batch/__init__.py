"""Answer requests to AWS Batch: drydock answers those about queues for training jobs, moto answers all others."""
