"""The services of the embedded stack: their commands, their environment, and how they are started and stopped."""
