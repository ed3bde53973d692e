"""What a validator asks of a model, measured on rows that it has not seen, as one document."""
