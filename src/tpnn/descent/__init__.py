"""The gradient solver: bases are learned by gradient descent, as in the paper."""
