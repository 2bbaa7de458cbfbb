"""Store, report and forecast the costs of endpoints."""
