"""GIN: NCCL's transfers that GPU kernels start."""
