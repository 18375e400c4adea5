"""A sample line for every row of the catalogue: a recorded one, or the template with values."""

from __future__ import annotations

from gdrkit.messages.message import MessageTemplate

FILLING = {
    "address": "0000:1b:00.0", "algorithm": "pkcs1pad(rsa,sha1) (pkcs1pad(rsa-generic,sha1))",
    "answer": "Operation not supported", "device": "mlx5_0",
    "command": "/bin/false", "count": "40", "directory": "/lib/modules/6.1", "error": "Invalid argument",
    "file": "x.ko", "folder": "/lib/modules/6.1/extra/", "found": "6.1 SMP",
    "function": "mlx5dv_reg_dmabuf_mr",
    "gdr": "1", "gpu": "3", "group": "0", "hca": "1b000", "index": "295", "kind": "nc",
    "kobject": "kobject: ",
    "license": "NVIDIA",
    "machine": "183", "module": "nvidia_peermem", "name": "mlx5_0+mlx5_1", "namespace": "DMA_BUF",
    "number": "3",
    "oid": "2.16.840.1.101.3.4.2.8", "owner": "ib_core", "packed": ".xz",
    "parameter": "peerdirect_support", "parts": "2", "path": "/lib/x.ko", "place": "", "pointer": "0x0",
    "letter": "x", "flags": "+px", "prefix": "mlx5", "process": "modprobe", "pxn": "1", "quote": '"',
    "size": "40", "speed": "400000",
    "rest": "+ TransBlk- ReqRedir+ CmpltRedir+",
    "status": "1", "symbol": "ib_register_peer_memory_client", "text": "IB", "type": "1", "unquote": '"',
    "value": "on", "wanted": "6.8 SMP", "what": "module_layout",
}  # fmt: skip


def sample(row: MessageTemplate) -> str:
    """A line that this row matches."""
    return row.sample or row.say(**FILLING)
