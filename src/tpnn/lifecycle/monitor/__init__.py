"""A model in use: whether new rows, their scores and their targets are still what they were."""
