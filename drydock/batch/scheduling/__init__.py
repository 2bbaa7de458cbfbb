"""The rules by which AWS Batch's jobs start and are preempted: pure functions of the waiting and the running jobs."""
