"""GDRCopy."""
