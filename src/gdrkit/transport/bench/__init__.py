"""The output of `gdr bench`: each path's speed, and its limit."""
