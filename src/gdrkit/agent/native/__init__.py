"""Bindings of libcuda and libibverbs, for the probes and for gdrkit.transport."""
