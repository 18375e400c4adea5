"""What a model's traffic costs where a direct path is missing."""
