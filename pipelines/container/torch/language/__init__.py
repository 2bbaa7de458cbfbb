"""What a script needs that fine-tunes a language model: hyperparameters, base model, documents, sequences, adapters."""
