"""Find what runs in SageMaker although nobody uses it, say what it costs, and stop it where that is allowed."""
