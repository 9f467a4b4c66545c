"""The figure of a recommendation: accuracy of each learner with its interval, and images as a learner draws them."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from augbench.bench.training.examples import Examples, Images
from augbench.results.figures.style import TWO_COLUMNS, Look, figure_style, with_note
from augbench.results.studies.advice import Advice

HEIGHT = 2.2  # inches
MOST_ROWS = 4  # images in the sheet
GAP = 2  # pixels between images
APART = ((0, 0), (0, 8), (0, 0))  # pixels to the right of an image that no learner drew
WHITE = 255


def advice_figure(
    advice: Advice, looks: Mapping[str, Look], note: str, drawn_by: str = "", examples: Examples | None = None
) -> Figure:
    """Draw the mean accuracy (%) of each learner with its 95 % interval; beside it, training images and draws of them.

    Args:
        advice: With at least one compared learner.
        looks: Colour of each learner.
        note: What the runs were made with.
        drawn_by: The learner of the examples.
        examples: A few training images, plain and augmented; None where no run kept any.
    """
    with figure_style():
        figure, body = with_note(
            TWO_COLUMNS, HEIGHT, note, "Points: means; bars: 95 % intervals over seeds and test images."
        )
        left, right = body.subplots(1, 2, width_ratios=(1.25, 1)) if examples else (body.subplots(), None)
        _draw_accuracies(left, advice, looks)
        if examples is not None and right is not None:
            right.imshow(sheet(examples), interpolation="nearest")
            right.set_title(f"Training images (left), and as {drawn_by} draws them")
            right.set_axis_off()
    return figure


def _draw_accuracies(axes: Axes, advice: Advice, looks: Mapping[str, Look]) -> None:
    labels = list(advice.accuracies)
    for place, (label, interval) in enumerate(advice.accuracies.items()):
        ends = [end for end in (interval.low, interval.high) if end is not None]
        if ends:
            axes.plot([100 * end for end in ends], [place, place], color=looks[label].colour, linewidth=2.2)
        axes.plot(100 * interval.estimate, place, "o", color=looks[label].colour, markersize=6)
        axes.annotate(
            f"{100 * interval.estimate:.1f}",
            (100 * interval.estimate, place),
            (0, 5),
            textcoords="offset points",
            ha="center",
        )
    axes.set_yticks(
        range(len(labels)), [f"{label}\n(recommended)" if label == advice.recommended else label for label in labels]
    )
    axes.set_ylim(len(labels) - 0.5, -0.7)
    axes.set_xlabel("Accuracy on test images (%)")
    axes.set_title("Accuracy of each learner")


def sheet(examples: Examples) -> Images:
    """Put images and their draws side by side, a row for each image; (H, W, 3)."""
    rows = [
        np.concatenate([np.pad(_framed(original), APART, constant_values=WHITE), *map(_framed, drawn)], axis=1)
        for original, drawn in zip(examples.originals[:MOST_ROWS], examples.drawn[:MOST_ROWS], strict=True)
    ]
    return np.concatenate(rows, axis=0)


def _framed(image: Images) -> Images:
    """Turn an image (C, H, W) into colours (H, W, 3) with a white margin."""
    colours = np.broadcast_to(image.transpose(1, 2, 0), (*image.shape[1:], 3))
    return np.pad(colours, ((GAP, GAP), (GAP, GAP), (0, 0)), constant_values=WHITE)
