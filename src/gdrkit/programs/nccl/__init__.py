"""NCCL: its releases, settings, logs, and what keeps it from the direct path."""
