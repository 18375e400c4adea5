"""Remedies, plans that end in ready, their execution and undo, and declarative configuration."""
