"""Bytes to structs: ELF, PKCS#7, PCI configuration space, YAML, archives. No names of files, no verdicts."""
