"""Training jobs: request, rules and work."""
