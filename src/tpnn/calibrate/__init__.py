"""What held-out rows say about predictions: intervals, sets of classes and reliability."""
