"""Find out when endpoints ran, and write their costs to the lake.

The sources are SageMaker, CloudWatch and the table `lifecycle_events`.
"""
