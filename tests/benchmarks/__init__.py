"""Programs that measure gdrkit itself."""
