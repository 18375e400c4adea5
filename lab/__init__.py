"""Boots real Linux kernels in QEMU, lets the real modprobe run in them, and records what they say."""
