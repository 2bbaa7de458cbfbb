"""Endpoints: their records, the instances behind them, deployments, and invocations."""
