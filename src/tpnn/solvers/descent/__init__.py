"""The gradient solver: it learns bases by gradient descent, as in the paper."""
