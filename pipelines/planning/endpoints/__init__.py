"""Size an endpoint, and compare the ways to answer requests by their costs."""
