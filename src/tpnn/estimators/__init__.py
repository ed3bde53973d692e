"""The public estimators, and the pipeline that joins all stages."""
