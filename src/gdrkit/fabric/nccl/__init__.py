"""NCCL's model of a node: its system tree, paths, bandwidths, and whether it uses GPUDirect RDMA."""
