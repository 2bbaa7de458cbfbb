"""Run DVC stages. Each run has a workspace at its own commit, and all workspaces share one cache."""
