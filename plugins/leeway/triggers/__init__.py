"""What waits, in the triggerer, for what Leeway's operators started."""
