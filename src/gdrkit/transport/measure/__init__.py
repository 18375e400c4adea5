"""Move bytes in order to measure: how fast each path is, and which path they took."""
