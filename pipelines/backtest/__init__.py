"""Walk-forward backtest: how each version scored on the days that came after it."""
