"""Numbers that others have published, to stand beside ours and never among them."""

from augbench.results.published.loader import COLUMNS, OF_THE_SETUP, load_published

__all__ = ["COLUMNS", "OF_THE_SETUP", "load_published"]
