"""Store SageMaker's feature groups, and the newest record of each identifier in their online stores."""
