"""Labels of any kind become numbers from 0, and their values the names of classes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from augbench.bench.common.errors import UserError, check_known, shortened

K = TypeVar("K", int, str)

LARGEST = np.iinfo(np.int64).max


def kept_classes(classes: Iterable[K], leave_out: Sequence[str], name: Callable[[K], str] = str) -> dict[K, int]:
    """Number the classes that are not left out, in rising order.

    Args:
        classes: The class of each image, or all classes.
        leave_out: Names of classes to leave out.
        name: Returns the name of a class.

    Raises:
        UserError: If one of those does not exist, or fewer than two classes are left.
    """
    found = sorted(set(classes))
    check_known("class for --leave-out", leave_out, map(name, found))
    kept = [one for one in found if name(one) not in leave_out]
    if len(kept) < 2:
        which = f"only one, {shortened(name(kept[0]))}" if kept else "none"
        raise UserError(f"A data set needs at least two classes; here there is {which}.")
    return {one: number for number, one in enumerate(kept)}


def number_labels(
    values: NDArray[Any], leave_out: Sequence[str], name: Callable[[Any], str] = str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Number labels in rising order.

    Args:
        values: Whole numbers or texts; (N,).
        leave_out: Names of classes to leave out.
        name: Returns the name of a class.

    Returns:
        The number of each label, -1 if it is left out, (N,); and the names of the classes.

    Raises:
        UserError: If a class to leave out does not exist, or fewer than two classes are left.
    """
    found, inverse = np.unique(values, return_inverse=True)
    numbers = kept_classes(found.tolist(), leave_out, name)
    lookup = np.array([numbers.get(one, -1) for one in found.tolist()], dtype=np.int64)
    return lookup[inverse], tuple(map(name, numbers))


def whole_numbers_or_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Turn whole floats into numbers, and truth values into texts.

    Raises:
        ValueError: If labels are something else; its text is a predicate of them.
    """
    kind = values.dtype.kind
    if kind in "bU":
        texts = values.astype(str)
        if any(text.encode("utf-8", "ignore").decode() != text for text in np.unique(texts).tolist()):
            raise ValueError("have texts that are not valid Unicode")
        return texts
    if kind not in "iuf":
        raise ValueError(f"are of type {values.dtype}; they must be whole numbers or texts")
    fits = np.abs(values) < LARGEST if kind == "f" else values <= LARGEST
    whole = fits if kind != "f" else fits & (values == np.round(values))
    if not whole.all():
        small = ", and numbers below 2**63" if kind != "f" else ""
        raise ValueError(f"have values such as {values[~whole][0]}; they must be whole numbers or texts{small}")
    return values.astype(np.int64)
