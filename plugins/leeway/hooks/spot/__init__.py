"""Read the history of spot prices, and wait for the hour in which a run starts."""
