"""Facts about a node, by subject: kernel, modules, trust, PCI, GPU, RDMA, driver, packages."""
