"""Run a walk-forward backtest: measure each version on the days after its training, and compare strategies."""
