"""The growing solver: bases are added where the residual still has structure."""
