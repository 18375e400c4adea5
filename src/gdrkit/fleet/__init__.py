"""Many nodes at once: judged in parallel, grouped by cause, compared with their peers."""
