"""NVSHMEM."""
