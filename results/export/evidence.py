"""What is known of an exported policy, in words: where it comes from and how well it did."""

from datetime import UTC, datetime

import pandas as pd

import augbench
from augbench.bench.common.wording import counted
from augbench.bench.experiment.labels import label_runs
from augbench.bench.experiment.spec import settings_in_words
from augbench.results.export import EXPORTED
from augbench.results.export.choosing import Chosen
from augbench.results.model.cells import accuracy_digits, by_comparison, is_single_epoch, scores_of
from augbench.results.model.differences import PREFERRED_REFERENCE, Difference, find_differences
from augbench.results.model.frame import Runs
from augbench.results.model.table import number, signed
from augbench.results.statistics.bootstrap import Interval, mean_interval


def evidence(chosen: Chosen) -> dict[str, str]:
    """Gather what is known of a run's policy, by what it is called; all texts are plain, some come from records."""
    record = chosen.record
    spec, labels = record.spec, label_runs([record.spec])[0]
    settings = settings_in_words(spec.method.settings) or "all at their defaults"
    last = record.attempts[-1] if record.attempts else None
    trained = f"augbench {last.augbench}" if last is not None and last.augbench else "an unknown version of augbench"
    commit = record.result.code.label if record.result else ""
    return {
        "method": f"{spec.method.name}, version {spec.method.version}; hyperparameters: {settings}",
        "data set": labels.dataset,
        "network": ", ".join([labels.network, *([spec.predictor.label] if spec.predictor else []), labels.budget]),
        "seed": f"{spec.seed} ({chosen.why})",
        **_measured(chosen),
        "run": record.name,
        "trained with": trained + (f", commit {commit}" if commit else ""),
        EXPORTED: f"by augbench {augbench.__version__} on {datetime.now(UTC).date().isoformat()}",
    }


def _measured(chosen: Chosen) -> dict[str, str]:
    """Accuracy without test-time draws: of this seed, of all seeds, and against no augmentation."""
    record, runs = chosen.record, chosen.runs
    if record.result is None:
        return {}
    if runs is None or record.name not in set(runs.runs["folder"]):
        alone = f"{100 * record.result.metrics[0]['accuracy'].mean:.2f} % with this seed; no other runs beside it"
        return {"test accuracy": alone, "against none": "there are no runs of none beside it"}
    row = runs.runs[runs.runs["folder"] == record.name].iloc[0]
    comparison, label = str(row["comparison"]), str(row["label"])
    parts = by_comparison(runs, runs.finished())
    here, group = next((here, group) for here, group in parts if group["comparison"].iloc[0] == comparison)
    digits = accuracy_digits(group)
    accuracies = scores_of(here, group, "accuracy", 0)
    of_label = accuracies[accuracies["label"] == label]
    own = float(of_label.loc[of_label["seed"] == record.spec.seed, "value"].iloc[0])
    mean, ends = float(of_label["value"].mean()), _ends(_interval(here, comparison, label), digits)
    accuracy = f"{number(100 * mean, digits)} %{ends} over {counted(len(of_label), 'seed')}"
    accuracy += f", {number(100 * own, digits)} % with this one"
    return {"test accuracy": accuracy, "against none": _against(here, group, label, digits)}


def _interval(runs: Runs, comparison: str, label: str) -> Interval | None:
    """Interval over seeds and test images, where predictions are there."""
    values = runs.correct(comparison, label, 0).to_numpy()
    return mean_interval(values) if values.size else None


def _ends(interval: Interval | None, digits: int, sign: bool = False) -> str:
    if interval is None or interval.low is None or interval.high is None:
        return ""
    low, high = (number(100 * end, digits) for end in (interval.low, interval.high))
    if sign:
        low, high = signed(low), signed(high)
    return f" (95 % interval {low} to {high})"


def _against(runs: Runs, group: pd.DataFrame, label: str, digits: int) -> str:
    """Difference from no augmentation, as the table of differences has it."""
    if is_single_epoch(group):
        return "not compared: the networks were trained for one epoch"
    found = find_differences(runs, group) if group["label"].nunique() > 1 else []
    mine = [one for one in found if one.label == label and one.draws == 0]
    names = set(group.loc[group["method"] == PREFERRED_REFERENCE, "label"])
    if not mine or mine[0].reference not in names or mine[0].estimate is None:
        return "there are no runs of none to compare with in the same output folder"
    return _in_words(mine[0], digits)


def _in_words(difference: Difference, digits: int) -> str:
    estimate = signed(number(100 * (difference.estimate or 0.0), digits))
    p_value = difference.p_adjusted
    tested = "not tested" if p_value is None else f"p = {p_value:.3g} with Holm's correction"
    missing = f" of {difference.asked}" if difference.seeds < difference.asked else ""
    seeds = f"{difference.seeds}{missing} {'seed' if difference.seeds == 1 else 'seeds'}"
    return f"{estimate} points{_ends(difference.interval, digits, sign=True)} over {seeds}, {tested}"
