"""The services of the embedded stack: their command lines, their environment, and how they are started and stopped."""
