"""The names of the programs. No imports: `gdr doctor --help` needs the names and nothing else.

Each name is that of a module beside this one, which declares its program under the name in capitals. The
first leads where nobody names a program.
"""

NAMES = ("nccl", "ucx", "verbs", "nvshmem")
