"""Processes that use a GPU or an RDMA device now: read from the node, nothing changed.

`gdrkit.agent.probe.running_probe` runs these modules as one program. They need only Python 3.8 and its
standard library.
"""
