"""The state of each model, collected for people."""
