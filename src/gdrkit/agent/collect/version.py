"""The versions of the collector and of its bundles."""

VERSION = "0.1.0"  # of the collector; a test compares it with gdrkit.__version__
SCHEMA = "gdrkit.bundle/1"
