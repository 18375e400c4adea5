"""MNNVL: NVLink between hosts."""
