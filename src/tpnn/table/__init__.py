"""The user's table: columns, axes, nodes, and the words for their values."""
