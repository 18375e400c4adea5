"""NCCL as the judge of gdrkit's model of it: random topologies, run through NCCL itself."""
