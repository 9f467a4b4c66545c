"""What is kept of the stages of a suite, in `OUT/tuning`: the suite, and every trial with its values and results.

The run folders remain the only truth. The record tells that a suite was changed between its stages, what Optuna has
tried, and what status and watch show, which are not given the suite.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import make_folder, write_json, write_text
from augbench.bench.contract.search_space import Range
from augbench.bench.experiment.spec import RunSpec, Settings
from augbench.bench.experiment.suite import Suite
from augbench.bench.planning.plan import changes
from augbench.bench.runs.recorded_stages import FOLDER, Content, called, read_stage_record
from augbench.bench.tuning.results import record_of
from augbench.bench.tuning.stages import Search, Stages
from augbench.bench.tuning.tuning import Tuning

COMPONENTS = ("method", "dataset", "network", "predictor")


def record_path(suite: Suite, out: Path) -> Path:
    """Path of the record of a suite, by its name, level and share."""
    words = re.sub(r"[^a-z0-9]+", "-", suite.name.lower()).strip("-")[:40]
    if words != suite.name:  # two names must not share a record
        words = f"{words}-{hashlib.sha256(suite.name.encode()).hexdigest()[:8]}"
    share = f"{suite.shard.number}-of-{suite.shard.of}" if suite.shard else None
    return out / FOLDER / ".".join(filter(None, (words, suite.level, share, "json")))


def kept_suite(suite: Suite, out: Path) -> Path:
    """Path of the text of the suite, as it was when trials or final runs were placed last."""
    return record_path(suite, out).with_suffix(".toml")


def write_stages(suite: Suite, stages: Stages, out: Path) -> None:
    """Record what is tuned and how far it is; where nothing is tuned any more, that nothing waits any more."""
    path = record_path(suite, out)
    known = read_stage_record(path)
    if not stages.searches:
        if known is not None and known["waiting"]:
            write_json(path, {**known, "waiting": 0})
        return
    content = {
        "suite": called(suite.name, suite.level, suite.shard),
        "searches": [_search_content(search) for search in stages.searches],
        "final": [run.folder.path.name for run in stages.final],
        "waiting": len(stages.waiting),
    }
    make_folder(path.parent)
    if content != known:
        write_json(path, content)
    write_text(kept_suite(suite, out), suite.text)


def _search_content(search: Search) -> Content:
    return {
        "kind": search.tuning.base.configuration,
        "runs": [folder.path.name for trial in search.trials for folder in trial.folders],
        **record_of(search.tuning, search.outcomes),
    }


def tried_before(suite: Suite, out: Path) -> dict[str, list[Settings]]:
    """Return the values of the trials that have ended, by `RunSpec.configuration` of what is tuned."""
    searches = (read_stage_record(record_path(suite, out)) or {"searches": []})["searches"]
    return {one["kind"]: [trial["values"] for trial in one["outcomes"]] for one in searches if one["outcomes"]}


def check_unchanged(suite: Suite, stages: Stages, out: Path) -> None:
    """Make sure that trials of before are trials of the suite as it is now; more of them may be asked for.

    Raises:
        UserError: If what is tuned has changed since.
    """
    path = record_path(suite, out)
    before = (read_stage_record(path) or {"searches": []})["searches"]
    changed = list(_changes(before, [search.tuning for search in stages.searches], suite.specs() if before else ()))
    if changed:
        name = called(repr(suite.name), suite.level, suite.shard)
        raise UserError(
            f"What the suite {name} tunes has changed since its trials in {out} began: {'; '.join(changed)}. Change it "
            f"back (as it was: {kept_suite(suite, out)}), or choose another folder with --out. To go on with the suite "
            f"as it is now, delete {path}: trials are placed anew where they differ, and the old ones stay, but count "
            "for nothing."
        )


def _changes(before: Sequence[Content], now: Sequence[Tuning], specs: Sequence[RunSpec]) -> Iterator[str]:
    known = {one["kind"]: one for one in before}
    kinds = {tuning.base.configuration: tuning for tuning in now}
    for kind, tuning in kinds.items():
        if kind in known:
            yield from _changed_effort(known[kind], tuning)
    gone = {_place(one["base"]): one["base"] for kind, one in known.items() if kind not in kinds}
    for kind, tuning in kinds.items():
        base = tuning.base.model_dump(mode="json")
        if kind not in known and _place(base) in gone:
            compared = changes(_comparable(gone[_place(base)]), _comparable(base))
            yield from (f"{_named(tuning.base)}: {words}" for words in compared)
    places = {_place(tuning.base.model_dump(mode="json")) for tuning in now}
    there = {_place(spec.model_dump(mode="json")): spec for spec in specs}
    untuned = {place: there[place] for place in gone if place in there and place not in places}
    yield from (f"{_named(spec)} was tuned, and is not any more" for spec in untuned.values())


def _place(base: Content) -> tuple[str, ...]:
    """What a search and the one that has taken its place share."""
    return tuple(base[name]["name"] for name in COMPONENTS if name in base)


def _comparable(base: Content) -> Content:
    """Leave out the seed, since what is tuned has all seeds, and whether a setting was a default."""
    components = {name: base[name] for name in COMPONENTS if name in base}
    settings = {name: {**one, "settings": one["settings"] | one["defaults"]} for name, one in components.items()}
    return {**base, "seed": 0, **{name: {**one, "defaults": {}} for name, one in settings.items()}}


def _named(base: RunSpec) -> str:
    return f"{base.learner_label} on {base.dataset.called}"


def _changed_effort(before: Content, tuning: Tuning) -> Iterator[str]:
    asked, now = before["question"], {"search": tuning.search, "seed": tuning.seed, "repeats": tuning.repeats}
    for key, value in now.items():
        if asked[key] != value:
            yield f"{_named(tuning.base)}: {key} of [tuning] was {asked[key]!r}, is {value!r} now"
    ranges = {name: Range.model_validate(tried) for name, tried in before["ranges"].items()}
    for name in dict.fromkeys((*ranges, *tuning.ranges)):
        was, now_is = ranges.get(name, "not tuned"), tuning.ranges.get(name, "not tuned")
        if was != now_is:
            yield f"{_named(tuning.base)}: the range of {name} was {was}, is {now_is} now"
    if before["trials"] > tuning.trials:
        yield (
            f"{_named(tuning.base)}: {before['trials']} trials were asked for, and are {tuning.trials} now, though the "
            "cost of all counts"
        )
