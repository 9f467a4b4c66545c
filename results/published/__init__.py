"""Numbers that others have published, to stand beside ours and never among them."""

from augbench.results.published.loader import COLUMNS, load_published

__all__ = ["COLUMNS", "load_published"]
