"""Application Auto Scaling for the variants of endpoints: moto has the API, this package evaluates the policies."""
