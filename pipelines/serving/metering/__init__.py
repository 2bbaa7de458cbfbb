"""Find out when endpoints ran from SageMaker, CloudWatch and the models' histories; write their costs to the lake."""
