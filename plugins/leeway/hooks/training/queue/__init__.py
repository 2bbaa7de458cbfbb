"""Submit trainings to a queue of AWS Batch, find their service jobs, and wait for them."""
