"""Frames of how well scores tell test images from those of other data sets, as `augbench probe --kind ood` writes."""

from augbench.results.records.rows import KEYS

PROBE_FILE = "probe-ood.csv"
SCORES = ("confidence", "energy")
MEASURES = ("auroc", "fpr95")
COLUMNS = (*KEYS, "dataset", "against", "score", *MEASURES, "test_images", "against_images")
"""Columns of the frame and of its CSV file: of the test images of `dataset` against those of the data set `against`,
the area under the ROC curve and the false-positive rate at 95 % of a `score`, "confidence" or "energy"."""
