"""What `gdr bench` writes: each path's speed beside what bounds it."""
