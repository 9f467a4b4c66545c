"""Removes from runs who executed them, where and from which folders, for anonymous review.

Only fields that are known to be harmless are kept: a field of a later version is left out until somebody decides.
"""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from augbench.bench.common.files import parse_json
from augbench.bench.experiment.tuning_cost import TuningCost
from augbench.bench.runs.run_folder import DamagedError
from augbench.results.records.contents import Epoch, Result
from augbench.results.records.problems import Problem
from augbench.results.records.stored import ADVICE, TEXTS, Stored

Json = Mapping[str, Any]

KEPT = {
    "spec": ("identity", "spec"),
    "status": ("state", "attempt", "phase", "step", "steps", "epoch", "cause", "exception"),
    "result": (*Result.model_fields, "channels", "search_images", "attempts"),
    "tuning": tuple(TuningCost.model_fields),
}
"""By the name of a text file in `TEXTS`, what is kept of it."""
KEPT_OF_AN_ATTEMPT = (
    *("attempt", "augbench", "code", "python", "packages", "device"),
    *("float32_convolutions", "resampling", "threads", "cores", "workers"),
)
SYSTEM = re.compile(r"[A-Za-z]+")
PATH_SIGN = re.compile(r"[/\\~]")
RUN_NAME = re.compile(r"[a-z0-9+-]+(_[a-z0-9+-]+){2}_seed\d+_[0-9a-f]{12}")
PLAIN_WORD = re.compile(r"-{0,2}[a-z0-9][a-z0-9+:-]*(=[a-z0-9+:-]+)?|([a-z_]+=)?[0-9.e+-]+")
PATH_OPTIONS = {"--out": "OUT", "--data": "DATA", "--profile": "PROFILE", "--plugin": "PLUGIN", "--from": "FOLDER"}


@dataclass
class Anonymiser:
    """Takes names out of runs; the same machine, GPU or plug-in gets the same number in all of them.

    Attributes:
        numbers: By kind and name, the number that stands for the name.
        remaining: Settings that look like paths. They are part of what a run is, and stay.
    """

    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    remaining: set[str] = field(default_factory=set)

    def stored(self, stored: Stored) -> Stored:
        """Return the files of a run without names; the run gets its standard name, whatever its folder is called.

        Raises:
            DamagedError: If one of them is no JSON, or the specification is damaged.
        """
        spec = stored.read_spec()
        for component in (spec.method, spec.dataset):
            for key, value in component.all_settings.items():
                if isinstance(value, str) and PATH_SIGN.search(value):
                    self.remaining.add(f"{key} = {value!r} of {component.name}")
        return replace(
            stored,
            name=spec.folder_name,
            spec=_reduced(stored, "spec"),
            status=_reduced(stored, "status"),
            result=_reduced(stored, "result"),
            tuning=_reduced(stored, "tuning"),
            metrics=_reduced_epochs(stored),
            environment=_changed(stored, "environment", self._environment),
        )

    def _environment(self, content: Json) -> Json:
        return {"attempts": [self._attempt(attempt) for attempt in content["attempts"]]}

    def _attempt(self, attempt: Json) -> Json:
        kept = _only(attempt, KEPT_OF_AN_ATTEMPT)
        if attempt.get("host"):
            kept["host"] = self._numbered("machine", attempt["host"])
        if attempt.get("device_uuid"):
            kept["device_uuid"] = self._numbered("GPU", attempt["device_uuid"])
        if system := SYSTEM.match(attempt.get("platform") or ""):
            kept["platform"] = system[0]
        if attempt.get("command"):
            kept["command"] = without_paths(attempt["command"])
        checksums = [plugin["sha256"] for plugin in attempt.get("plugins") or []]
        kept["plugins"] = [{"path": self._numbered("plug-in", one), "sha256": one} for one in checksums]
        return kept

    def _numbered(self, kind: str, name: str) -> str:
        return f"{kind} {self.numbers.setdefault((kind, name), 1 + sum(known == kind for known, _ in self.numbers))}"


def anonymous_problem(problem: Problem) -> Problem:
    """Reduce a problem to its kind, and its name if that is one of a run."""
    name = problem.folder if RUN_NAME.fullmatch(problem.folder) else "a folder or file"
    return Problem(problem.kind, f"{name}: {problem.kind}", name)


def without_paths(command: str) -> str:
    """Replace each path in a command by a word in capitals, and whatever may be a name by `…`."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    shown: list[str] = []
    for word in words:
        option, equals, value = word.partition("=")
        if shown and shown[-1] in PATH_OPTIONS:
            shown.append(PATH_OPTIONS[shown[-1]])
        elif option in PATH_OPTIONS:
            shown.append(option + equals + PATH_OPTIONS[option] * bool(value))
        elif word.endswith(".toml"):
            shown.append("SUITE")
        else:
            shown.append(word if PLAIN_WORD.fullmatch(word) else "…")
    return " ".join(shown)


def _only(content: Json, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name in names}


def _reduced(stored: Stored, name: str) -> bytes:
    return _changed(stored, name, lambda content: _only(content, KEPT[name]))


def _changed(stored: Stored, name: str, change: Callable[[Json], Json]) -> bytes:
    text: bytes = getattr(stored, name)
    if not text:
        return text
    try:
        return json.dumps(change(parse_json(text, TEXTS[name])), indent=1).encode() + b"\n"
    except (ValueError, AttributeError, TypeError, KeyError):
        raise _damaged(stored, name) from None


def _reduced_epochs(stored: Stored) -> bytes:
    try:
        lines = [parse_json(line, TEXTS["metrics"]) for line in stored.metrics.splitlines()]
    except ValueError:
        raise _damaged(stored, "metrics") from None
    return "".join(json.dumps(_only(line, tuple(Epoch.model_fields))) + "\n" for line in lines).encode()


def _damaged(stored: Stored, name: str) -> DamagedError:
    return DamagedError(f"{TEXTS[name]} in {stored.place} is truncated or foreign. {ADVICE}")
