"""Questions that a node answers, by subject: kernel, modules, trust, PCI, GPU, RDMA, driver, packages."""
