"""The predicting half of the estimators, and models from files that have it too."""
