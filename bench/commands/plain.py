"""How commands write what runs have written, and times, so that nothing in it is taken for anything but text."""

KEPT = "\n\t"


def safe(text: str) -> str:
    r"""Show characters that a terminal would obey, such as escape sequences, as `\x1b`; lines and tabs stay."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")  # progress bars go back to the start of their line
    if lines.isprintable():
        return lines
    return "".join(one if one in KEPT or one.isprintable() else _escaped(one) for one in lines)


def in_one_line(text: str, most: int = 400) -> str:
    """Show a text in one line, cut off where it is very long."""
    line = safe(" ".join(text.split()))
    return line if len(line) <= most else line[:most] + "…"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


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
