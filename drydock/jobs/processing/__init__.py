"""Processing jobs: request, rules and work."""
