"""The frozen model: predicts, scores components, certifies, is saved and read."""
