"""Choose the instance type of a training with instance_type="auto"."""
