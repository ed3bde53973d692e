"""What is known in advance: components, p-values, intervals, bits; and what repeats itself."""
