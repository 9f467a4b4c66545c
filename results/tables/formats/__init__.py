"""The formats of a table: Markdown, LaTeX, CSV, HTML and the terminal. Each escapes whatever it shows."""

from augbench.results.tables.formats.latex import to_latex
from augbench.results.tables.formats.lines import to_csv
from augbench.results.tables.formats.markdown import to_markdown
from augbench.results.tables.formats.page import to_html
from augbench.results.tables.formats.terminal import to_rich

__all__ = ["to_csv", "to_html", "to_latex", "to_markdown", "to_rich"]
