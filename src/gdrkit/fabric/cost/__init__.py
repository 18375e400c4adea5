"""The cost of a model's traffic without a direct path."""
