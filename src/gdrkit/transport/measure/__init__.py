"""Move bytes in order to measure: how fast each path is, and which way they went."""
