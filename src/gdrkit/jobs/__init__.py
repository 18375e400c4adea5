"""What NCCL's logs prove about a job: which ranks use GPUDirect RDMA, which do not, and why."""
