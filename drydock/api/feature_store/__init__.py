"""Answer the requests to SageMaker Feature Store: feature groups, and the records of their online stores."""
