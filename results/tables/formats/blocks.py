"""Cut the columns of a wide table into blocks that stand one below the other."""

from collections.abc import Sequence


def cut(widths: Sequence[int], room: int) -> list[list[int]]:
    """Cut columns into as few blocks of width `room` as possible, about equally wide; a single column may be wider.

    Returns:
        The indices of the columns of each block, in order; one empty block for no columns.
    """
    fewest = len(_filled(widths, room))
    narrowest = next((smaller for smaller in range(room) if len(_filled(widths, smaller)) == fewest), room)
    return _filled(widths, narrowest)


def _filled(widths: Sequence[int], room: int) -> list[list[int]]:
    """Fill one block after the other."""
    blocks: list[list[int]] = [[]]
    left = room
    for index, width in enumerate(widths):
        if blocks[-1] and width > left:
            blocks.append([])
            left = room
        blocks[-1].append(index)
        left -= width
    return blocks
