"""The images that a search for a policy uses: a part of all training images, the same for every seed of a run."""

import torch

from augbench.bench.dataset import Split, class_balanced_subset
from augbench.bench.errors import UserError
from augbench.bench.search import SearchProblem

SPLIT_SEED = 0


def search_images(problem: SearchProblem, count: int) -> Split:
    """Choose about `count` of the images for training and validation together, class shares kept.

    Args:
        problem: The images.
        count: How many; all where there are no more.

    Raises:
        UserError: If so few leave less than two.
    """
    parts = problem.train, problem.validation
    pool = Split(torch.cat([part.images for part in parts]), torch.cat([part.labels for part in parts]))
    chosen = class_balanced_subset(pool, count, SPLIT_SEED)
    if len(chosen) < 2:
        raise UserError(
            f"A search on {count} of {len(pool)} images has too few of each class. Raise `search_images` in the suite "
            "to several for each class."
        )
    return chosen
