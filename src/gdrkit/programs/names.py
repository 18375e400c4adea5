"""The names of the programs. This module has no imports, because `gdr doctor --help` needs only the names.

Each name is that of a module in this package, with _ for -, which declares the program under the name in
capitals. The first is the default program.
"""

NAMES = (
    "nccl",
    "ucx",
    "verbs",
    "nvshmem",
    "deepep",
    "nccl-gin",
    "nixl",
    "mooncake",
    "mnnvl",
    "aws-ofi-nccl",
    "gdrcopy",
    "gds",
)
ALWAYS = ("nccl", "verbs")
"""Those that `gdr doctor` shows on every node; others where they are installed, run or are asked about."""
ALL = "all"
"""In place of a name: show every program. The verdict is that of the first."""
