"""How commands write long texts and times."""

from augbench.bench.common.plain_text import safe


def in_one_line(text: str, most: int = 400) -> str:
    """Show a text in one line, cut off where it is very long."""
    line = safe(" ".join(text.split()))
    return line if len(line) <= most else line[:most] + "…"


def duration(seconds: float) -> str:
    """Say how long something takes, with the two largest units."""
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if minutes < 1:
        return f"{seconds:.0f} s"
    if hours < 1:
        return f"{minutes} min"
    if days < 1:
        return f"{hours} h {minutes % 60} min"
    return f"{days} d {hours % 24} h"
