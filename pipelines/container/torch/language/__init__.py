"""What a script that fine-tunes a language model needs: hyperparameters, base model, documents, sequences, adapters."""
