"""A node's devices as a graph, NCCL's model of it, what links carry, and what a model's traffic costs."""
