"""Published numbers of others, shown beside ours and never averaged with them."""

from augbench.results.published.loader import COLUMNS, OF_THE_SETUP, load_published

__all__ = ["COLUMNS", "OF_THE_SETUP", "load_published"]
