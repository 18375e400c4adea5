"""aws-ofi-nccl and libfabric, on Amazon's EFA devices."""
