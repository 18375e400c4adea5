"""Checks gdrkit's model of NCCL against NCCL itself, with random topologies."""
