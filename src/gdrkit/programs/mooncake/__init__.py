"""Mooncake's transfer engine."""
