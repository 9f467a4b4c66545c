"""Statistics as pure functions: arrays and frames in, numbers out; nothing here reads a file or knows a run folder."""
