"""Answer AWS Batch's requests: those about queues for training jobs here, and others by moto."""
