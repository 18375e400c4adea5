"""What a node's links can carry at most, and what a measurement says beside that."""
