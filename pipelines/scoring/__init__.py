"""Score published days with the champion, in this process or by SageMaker Batch Transform."""
