"""Parsers from bytes to structs: ELF, PKCS#7, PCI configuration space, YAML, XML. No file names, no
verdicts."""
