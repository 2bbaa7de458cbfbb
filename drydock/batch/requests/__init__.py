"""Answer the operations of AWS Batch's queues for training jobs: each module has those of one kind of resource."""
