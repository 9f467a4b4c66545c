"""What a tuning leaves behind: `tuning.json` with all trials, and `best.toml`, a suite with the best values."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.common.files import make_folder, read_json, write_json, write_text
from augbench.bench.common.toml_files import in_toml
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import parse_suite
from augbench.bench.experiment.tuning_cost import NAME, TuningCost
from augbench.bench.tuning.outcome import Outcome, TrialState, as_json, ranked, spent_on
from augbench.bench.tuning.tuning import Tuning

BEST = "best.toml"
SEEDS = (0, 1, 2)
SECONDS_IN_AN_HOUR = 3600


def best_of(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the finished trial with the highest accuracy, the earliest of equal ones.

    Raises:
        UserError: If none is finished.
    """
    best = ranked(outcomes)[0] if outcomes else None
    if best is None or best.state is not TrialState.DONE:
        raise UserError(
            f"None of the {len(outcomes)} trials has a result, so there are no best values. {why_none(outcomes)} The "
            "same command resumes those that did not fail; --retry-failed starts failed ones again."
        )
    return best


def why_none(outcomes: Sequence[Outcome]) -> str:
    """Say why trials have no result."""
    return " ".join(sorted({f"{one.state}: {one.reason}" if one.reason else str(one.state) for one in outcomes}))


def cost_of(tuning: Tuning, outcomes: Sequence[Outcome], best: Outcome) -> TuningCost:
    """Add up what all trials have cost, those that failed or were stopped among them; with the values of the best."""
    spent = spent_on(outcomes)
    return TuningCost(
        trials=len(outcomes),
        search=tuning.search,
        seconds=spent.by_device,
        image_passes=spent.passes,
        values=best.trial.values,
    )


def check_not_another(tuning: Tuning, out: Path) -> None:
    """Make sure that what an output folder holds is this tuning, or one with fewer trials.

    Raises:
        UserError: If it holds another one, or more trials, whose cost would be forgotten.
    """
    path = out / NAME
    if not path.exists():
        return
    try:
        kept = read_json(path)
        before, trials = kept["question"], int(kept["trials"])
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is damaged. Delete it and give the same command again: it is written anew.") from None
    now = question(tuning)
    changed = [
        f"{key} was {before.get(key)!r}, is {value!r} now" for key, value in now.items() if before.get(key) != value
    ]
    if changed:
        raise UserError(f"{out} holds another tuning: {'; '.join(changed)}. Choose another folder with --out.")
    if trials > tuning.trials:
        raise UserError(
            f"{out} holds a tuning of {trials} trials, and their cost counts. Give --trials {trials} or more, or "
            "choose another folder with --out."
        )


def question(tuning: Tuning) -> dict[str, Any]:
    """Say what is tuned: everything but the number of trials, which may grow later."""
    base = tuning.base.model_copy(update={"seed": 0})
    return {
        "method": base.learner_label,
        "dataset": base.dataset.label,
        "network": base.network.label,
        "search": tuning.search,
        "seed": tuning.seed,
        "repeats": tuning.repeats,
        "identity": base.identity,
    }


def begin_record(tuning: Tuning, out: Path) -> None:
    """Record what is tuned before any trial begins, after `check_not_another` has passed, so that every cost counts."""
    path = make_folder(out) / NAME
    if path.exists():
        write_json(path, {**read_json(path), "trials": tuning.trials})
    else:
        write_record(tuning, [], out)


def write_record(tuning: Tuning, outcomes: Sequence[Outcome], out: Path) -> Path:
    """Write `tuning.json`: every trial with its values, accuracy, cost and state."""
    write_json(out / NAME, record_of(tuning, outcomes))
    return out / NAME


def record_of(tuning: Tuning, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Describe a tuning and how its trials went, for a file."""
    done = [one for one in ranked(outcomes) if one.state is TrialState.DONE]
    spent = spent_on(outcomes)
    return {
        "question": question(tuning),
        "trials": tuning.trials,
        "ranges": {name: tried.model_dump(mode="json") for name, tried in tuning.ranges.items()},
        "best": done[0].trial.number if done else None,
        "seconds": spent.seconds,
        "image_passes": spent.image_passes,
        "outcomes": [as_json(one) for one in outcomes],
        "base": tuning.base.model_dump(mode="json"),
    }


def write_suite(tuning: Tuning, best: Outcome, cost: TuningCost, out: Path, seeds: Sequence[int] = SEEDS) -> Path:
    """Write `best.toml`, a suite with the best values for the data set, network and budget of the tuning.

    Args:
        tuning: What was tuned.
        best: The best trial.
        cost: What all trials have cost.
        out: Where to.
        seeds: Seeds of the suite.
    """
    text = suite_text(tuning, best, cost, seeds)
    parse_suite(text, BEST).specs()  # nothing is written that cannot be run
    write_text(out / BEST, text)
    return out / BEST


def suite_text(tuning: Tuning, best: Outcome, cost: TuningCost, seeds: Sequence[int]) -> str:
    """Write the suite with its budget in full: a level would shorten again what it had shortened for the tuning."""
    base = tuning.base
    method = {
        "name": base.method.name,
        "hyperparameters": {**base.method.settings, **best.trial.values},
        "tuning": cost.model_dump(mode="json"),
    }
    dataset = {"name": base.dataset.name, "options": base.dataset.settings}
    protocol = base.protocol.model_dump(mode="json", exclude_defaults=True)
    budget = base.budget.model_dump(mode="json")
    lines = [
        *(f"# {line}" for line in _story(tuning, best, cost)),
        f"name = {in_toml(f'tuned-{base.method.name}-{base.dataset.name}')}",
        f"title = {in_toml(f'{base.method.name} with tuned hyperparameters on {base.dataset.name}')}",
        f"seeds = {in_toml(list(seeds))}",
        *([f"protocol = {in_toml(protocol)}"] if protocol else []),
        "",
        "[[comparisons]]",
        f"network = {in_toml(base.network.name)}",
        *_predictors(base),
        f"datasets = [{in_toml(dataset)}]",
        "methods = [",
        f"    {in_toml(method)},",
        "]",
        "",
        "[comparisons.budget]",
        *(f"{key} = {in_toml(value)}" for key, value in budget.items() if value is not None),
    ]
    return "\n".join(lines) + "\n"


def _predictors(base: RunSpec) -> list[str]:
    """Name the predictor of a suite; nothing for `single`."""
    one = base.predictor
    return [f"predictors = [{in_toml({'name': one.name, 'settings': one.settings})}]"] if one else []


def _story(tuning: Tuning, best: Outcome, cost: TuningCost) -> list[str]:
    base = tuning.base
    hours = ", ".join(f"{seconds / SECONDS_IN_AN_HOUR:.3g} hours on {name}" for name, seconds in cost.seconds.items())
    ranges = "; ".join(f"{name} from {tried}" for name, tried in tuning.ranges.items())
    runs = f"{tuning.repeats} run{'s' * (tuning.repeats > 1)} each"
    command = to_paste("tune", base.method.name, "--dataset", base.dataset.name)
    return [
        f"Found by `{command}`: {cost.trials} trials, search {cost.search}, seed {tuning.seed}, {runs}; "
        f"{hours or 'no time'}.",
        f"Values tried: {ranges}.",
        f"Best: trial {best.trial.number}, {100 * (best.accuracy or 0):.2f} % of the validation images, which are part "
        "of the training images; test images were not looked at.",
    ]
