"""What the logs of a job of NCCL's prove: who went straight to GPU memory, who did not, and why."""
