"""GPUDirect Storage."""
