"""The names of the programs. This module has no imports, because `gdr doctor --help` needs only the names.

Each name is that of a module in this package, which declares the program under the name in capitals. The
first is the default program.
"""

NAMES = ("nccl", "ucx", "verbs", "nvshmem")
