"""How well confidence and energy tell test images from those of other data sets."""

import pandas as pd

from augbench.results.model.cells import accuracy_digits, asked_seeds
from augbench.results.model.frame import Runs
from augbench.results.model.notes import not_probed
from augbench.results.model.outside import MEASURES, SCORES
from augbench.results.model.table import Column, Table, mean_cell
from augbench.results.tables.by_learner import Measures, tables_by_learner

_HEADINGS = {"auroc": "AUROC", "fpr95": "FPR95"}
_DEFINITIONS = (
    "How well a score tells the test images from those of the data set named in the row, without test-time draws. "
    "Confidence: highest class probability. Energy: logarithm of the sum of the exponentials of the network's outputs "
    "(Liu et al., 2020, with the opposite sign), of single networks alone: what other predictors put out can be "
    "logarithms of probabilities, whose energy is 0 for every image.",
    "AUROC: how often a test image has a higher score than one of the other data set, ties counted half; 50 % by "
    "chance. FPR95: share of the other images above the highest threshold that keeps 95 % of the test images; lower is "
    "better.",
)


def outside_tables(runs: Runs) -> list[Table]:
    """Compare scores of images of other data sets; none without a probe of the kind `ood`."""
    frame, finished = runs.outside, runs.finished()
    chosen = finished[finished["folder"].isin(frame["folder"])]

    def measures(here: Runs, group: pd.DataFrame) -> Measures:
        found = frame[frame["folder"].isin(group["folder"])]
        for against, of_set in found.groupby("against", sort=False):
            for score in SCORES:
                rows = of_set[of_set["score"] == score]
                for measure in MEASURES:
                    heading = f"{_HEADINGS[measure]}, {score}, against {against} (%)"
                    yield (
                        Column(heading, f"{measure}_{score}_{against}", None, "share"),
                        {
                            str(label): mean_cell(values, 100, accuracy_digits(rows)).of(asked_seeds(group))
                            for label, values in rows.groupby("label", sort=False)[measure]
                        },
                    )

    definitions = (*_DEFINITIONS, *not_probed(finished, chosen))
    return tables_by_learner("ood", "Images of other data sets", runs, chosen, measures, definitions, can_be_bold=False)
