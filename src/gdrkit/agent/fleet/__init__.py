"""Programs that a fleet run sends to a cluster, where only Python and the cluster's own engine are."""
