"""Training jobs on managed spot instances."""
