"""DeepEP."""
