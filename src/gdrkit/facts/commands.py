"""Commands whose output is evidence, and the files where bundles keep it. Files come first; these, second."""

from __future__ import annotations

from gdrkit.evidence import Command

DMESG = Command(
    ("dmesg",),
    (
        "sos_commands/kernel/dmesg",
        "sos_commands/kernel/dmesg_-T",
        "sos_commands/general/dmesg",
        "sos_commands/logs/journalctl_--no-pager_--boot",
        "sos_commands/logs/journalctl_--no-pager_--dmesg",
    ),
)
LSPCI = Command(("lspci", "-nnvvv"), ("sos_commands/pci/lspci_-nnvvv", "sos_commands/pci/lspci_-nnvv"))
