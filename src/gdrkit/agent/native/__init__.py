"""libcuda and libibverbs as their headers lay them out, once, for the probes and for what moves bytes."""
