"""libcuda and libibverbs through ctypes, with every result checked."""
