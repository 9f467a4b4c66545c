"""Tables as one self-contained HTML page."""

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from augbench.bench.common.plain_text import safe_in_page
from augbench.results.model.table import Table


def to_html(tables: Sequence[Table]) -> str:
    """Write one page of all tables, with the title of the first; every text is escaped, best cells are bold."""
    environment = Environment(
        loader=PackageLoader("augbench.results.tables.formats", "."),
        autoescape=True,
        finalize=safe_in_page,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("page.html.jinja").render(tables=tables)
