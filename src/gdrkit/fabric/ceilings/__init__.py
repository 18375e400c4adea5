"""The ceilings of a node's paths, and measured rates compared with them."""
