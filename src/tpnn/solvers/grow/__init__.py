"""The growing solver: it adds bases where the residual still has structure."""
