"""Search for hyperparameters: trials of the training script, judged on walk-forward folds of the training window."""
