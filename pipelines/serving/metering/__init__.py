"""Find out what endpoints ran, from SageMaker, CloudWatch and the models' histories, and write its cost to the lake."""
