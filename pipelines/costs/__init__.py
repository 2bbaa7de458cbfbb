"""Compute what jobs cost: prices, the ledger of charges, forecasts and reports."""
