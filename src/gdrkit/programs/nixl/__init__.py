"""NIXL."""
