"""How GPUs and NICs of a node hang together, and what NCCL makes of it. PURE."""
