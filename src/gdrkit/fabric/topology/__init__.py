"""A node's devices as a graph: GPUs, NICs, bridges, processors, and the paths between them."""
