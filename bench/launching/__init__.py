"""Having planned runs executed: what must be right before, and the launch."""
