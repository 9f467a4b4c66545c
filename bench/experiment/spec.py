"""What a run is: a frozen specification, and the identity computed from it."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from textwrap import shorten
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, JsonValue, SerializerFunctionWrapHandler, ValidationError, model_serializer
from pydantic_core import to_jsonable_python

from augbench.bench.common.errors import UserError, one_of
from augbench.bench.common.plain_text import safe
from augbench.bench.common.toml_files import line_of
from augbench.bench.data.own.settings import OWN
from augbench.bench.experiment.catalogues import dataset_and_options, datasets, methods, networks, predictors
from augbench.bench.experiment.protocol import PROTOCOL_VERSION, Budget, Protocol

Settings = dict[str, JsonValue]
TIMES = " × "  # between a method and a predictor
LONGEST_SETTING = 40  # characters
LONGEST_PREDICTOR = 16  # characters of its name in that of a folder
SINGLE = "single"
"""The predictor of a run that names none."""


class Component(BaseModel):
    """A method, data set, network or predictor with its settings.

    Attributes:
        name: Registered name.
        version: Version of its code.
        settings: Hyperparameters or options that differ from their defaults: part of the identity.
        defaults: The others: not part of the identity, but compared, so that a changed default is noticed.
        checksum: Checksum of the source files of a data set.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    version: int
    settings: Settings = {}
    defaults: Settings = {}
    checksum: str = ""

    @property
    def all_settings(self) -> Settings:
        """Every setting with its value."""
        return self.defaults | self.settings

    @property
    def called(self) -> str:
        """Its name; of a data set of one's own the one that its user chose, such as `pets`."""
        prepared = str(self.settings.get("prepared", "")) if self.name == OWN else ""
        return safe(prepared).rpartition("-")[0] or self.name

    @property
    def label(self) -> str:
        """Name and settings that differ from their defaults, as tables show them."""
        known = {"prepared"} if self.name == OWN else set()
        inside = settings_in_words({key: value for key, value in self.settings.items() if key not in known})
        return f"{self.called} ({inside})" if inside else self.called


class RunSpec(BaseModel):
    """Everything that determines a run's result, and nothing else: no path, device, worker count or launcher.

    Attributes:
        predictor: What the network is made into; None for `single`, the network as it is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol_version: int = PROTOCOL_VERSION
    protocol: Protocol = Protocol()
    method: Component
    dataset: Component
    network: Component
    budget: Budget
    predictor: Component | None = None
    seed: int

    @cached_property
    def identity(self) -> str:
        """SHA-256 over canonical JSON of everything that differs from a default, in hexadecimal."""
        # "seed" is the last of all keys, so the text before it is written once for all seeds
        return _sha256(f'{self._all_but_seed.removesuffix("}")},"seed":{self.seed}}}')

    @cached_property
    def configuration(self) -> str:
        """Like `identity`, but the same for runs that differ only in their seed."""
        return _sha256(self._all_but_seed)

    @cached_property
    def _all_but_seed(self) -> str:
        content = self.model_dump(mode="json", exclude={"protocol", "budget", "seed"})
        for component in self.components:
            del content[component]["defaults"]
        content["protocol"] = self.protocol.model_dump(mode="json", exclude_defaults=True)
        content["budget"] = self.budget.model_dump(mode="json", exclude_defaults=True)
        return canonical_json(content)

    def with_seed(self, seed: int) -> "RunSpec":
        """Return the same configuration with another seed, much faster than a new specification."""
        other = self.model_copy(update={"seed": seed})
        other.__dict__["_all_but_seed"] = self._all_but_seed
        return other

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> "RunSpec":
        """Copy as pydantic does, without values cached for the old fields."""
        copy = super().model_copy(update=update, deep=deep)
        for name in ("identity", "configuration", "_all_but_seed"):
            copy.__dict__.pop(name, None)
        return copy

    @model_serializer(mode="wrap")
    def _without_none(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out a predictor that is not there, as earlier versions wrote it."""
        content: dict[str, Any] = handler(self)
        if self.predictor is None:
            content.pop("predictor", None)
        return content

    @property
    def components(self) -> dict[str, Component]:
        """Method, data set, network and, where there is one, predictor, by the name of their field."""
        found = {"method": self.method, "dataset": self.dataset, "network": self.network}
        return found if self.predictor is None else found | {"predictor": self.predictor}

    @property
    def learner(self) -> str:
        """Name of the method, with that of the predictor where it is not `single`: what tables tell apart."""
        return with_predictor(self.method.name, self.predictor.name if self.predictor else None)

    @property
    def learner_label(self) -> str:
        """The same with settings that differ from their defaults."""
        return with_predictor(self.method.label, self.predictor.label if self.predictor else None)

    @property
    def folder_name(self) -> str:
        """Name of the run's folder, which ends in the first 12 digits of the identity."""
        parts = [component.name for component in (self.method, self.dataset, self.network)]
        parts += [self.predictor.name[:LONGEST_PREDICTOR]] if self.predictor else []
        return "_".join([*parts, f"seed{self.seed}", self.identity[:12]])


def with_predictor(method: str, predictor: str | None) -> str:
    """Join what tables call a method and a predictor, such as `scale × mc-dropout`; None for `single`."""
    return f"{method}{TIMES}{predictor}" if predictor else method


def canonical_json(content: object) -> str:
    """Write the JSON that identities are computed from: sorted keys, no blanks, no NaN."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def settings_in_words(settings: Mapping[str, object]) -> str:
    """Write settings for tables; a long one, such as a whole policy, becomes the start of its checksum."""
    return ", ".join(f"{safe(key)}={_brief(value)}" for key, value in sorted(settings.items()))


def _brief(value: object) -> str:
    text = safe(str(value))
    return text if len(text) <= LONGEST_SETTING else "#" + hashlib.sha256(text.encode()).hexdigest()[:8]


def method_component(name: str, settings: Mapping[str, Any], where: str) -> Component:
    """Resolve a method and its hyperparameters.

    Raises:
        UserError: If there is no such method or hyperparameter, or a value is out of range.
    """
    target = methods().get(name)
    return _component(name, target.version, target.hyperparameters_type, settings, where)


def dataset_component(name: str, settings: Mapping[str, Any], where: str) -> Component:
    """Resolve a data set and its options.

    Raises:
        UserError: If there is no such data set or option, or a value is out of range.
    """
    target = datasets().get(name)
    component = _component(name, target.version, target.options_type, settings, where)
    source, options = dataset_and_options(name, component.all_settings)
    return component.model_copy(update={"checksum": source.source_checksum(options)})


def network_component(name: str) -> Component:
    """Resolve a network.

    Raises:
        UserError: If there is no such network.
    """
    return Component(name=name, version=networks().get(name).version)


def predictor_component(name: str, settings: Mapping[str, Any], where: str) -> Component | None:
    """Resolve a predictor and its settings.

    A number after the name of one with members, as in `ensemble-4`, is that of its members.

    Returns:
        None for `single`.

    Raises:
        UserError: If there is no such predictor or setting, or a value is out of range.
    """
    known, (stem, _, number) = predictors(), name.rpartition("-")
    if name not in known.entries and number.isdecimal() and stem in known.entries and "members" not in settings:
        name, settings = stem, {**settings, "members": int(number)}
    target = known.get(name)
    component = _component(name, target.version, target.settings_type, settings, where)
    return None if name == SINGLE else component


def _component(name: str, version: int, model: type[BaseModel], settings: Mapping[str, Any], where: str) -> Component:
    checked = validated(model, settings, f"{name!r} in {where}")
    for place, number in _infinite(checked.model_dump()):  # JSON may silently make them null
        raise UserError(f"Wrong settings for {name!r} in {where}: {place}: must be a finite number (given: {number}).")
    resolved = _in_fixed_order(checked.model_dump(mode="json"), checked.model_dump())
    changed = {key for key, value in resolved.items() if _differs_from_default(model, key, value)}
    return Component(
        name=name,
        version=version,
        settings={key: resolved[key] for key in sorted(changed)},
        defaults={key: resolved[key] for key in sorted(set(resolved) - changed)},
    )


def _in_fixed_order(dumped: Any, value: object) -> Any:
    """Sort lists that pydantic dumped from sets, whose order differs from process to process."""
    value = value.model_dump() if isinstance(value, BaseModel) else value
    if isinstance(value, set | frozenset):
        return sorted(dumped, key=canonical_json)
    if isinstance(value, dict):
        return {
            key: _in_fixed_order(part, inside)
            for (key, part), inside in zip(dumped.items(), value.values(), strict=True)
        }
    if isinstance(value, list | tuple):
        return [_in_fixed_order(part, inside) for part, inside in zip(dumped, value, strict=True)]
    return dumped


def _infinite(value: object, place: str = "") -> Iterator[tuple[str, float]]:
    """Find numbers that are not finite, also in models that allow them: no identity can include them."""
    if isinstance(value, float) and not math.isfinite(value):
        yield place, value
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, part in inside:
        yield from _infinite(part, f"{place}.{key}" if place else str(key))


def _differs_from_default(model: type[BaseModel], key: str, value: JsonValue) -> bool:
    field = model.model_fields[key]
    if field.is_required():
        return True
    default = field.get_default(call_default_factory=True)
    return bool(value != _in_fixed_order(to_jsonable_python(default), default))


M = TypeVar("M", bound=BaseModel)


def validated(model: type[M], values: object, where: str, text: str = "") -> M:
    """Check values from outside against a model.

    Args:
        model: The model.
        values: The values.
        where: Where they come from.
        text: The TOML they were read from, for the line of each wrong one.

    Raises:
        UserError: One paragraph that names every wrong key or value, its place, and what is valid.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UserError(f"Wrong settings for {where}: " + " ".join(_explain(model, error, text))) from None
    except UserError as error:  # from a validator with its own text
        raise UserError(f"Wrong settings for {where}: {error}") from None


IN_TERMS_OF_TOML = {
    "tuple_type": "must be a list: [a, b], or [[name]] above each table of a list of tables",
    "too_short": "must not be empty",
    "model_type": 'must be a table, such as { name = "…" }',
    "dict_type": "must be a table, such as { copies = 4 }",
}


def _explain(model: type[BaseModel], error: ValidationError, text: str) -> list[str]:
    sentences = []
    problems = error.errors()
    places = [problem["loc"] for problem in problems]
    for problem in problems:
        place = problem["loc"]
        if any(len(other) > len(place) and other[: len(place)] == place for other in places):
            continue  # caused by a mistake further inside, which has its own sentence
        key = _in_words(place)
        line = f"line {number}: " if text and place and (number := line_of(text, place)) is not None else ""
        if problem["type"] == "extra_forbidden":
            sentences.append(line + one_of("key", str(place[-1]), _fields_beside(model, place), key))
        elif problem["type"] == "missing":
            sentences.append(f"{line}{key!r} is missing.")
        else:
            message = IN_TERMS_OF_TOML.get(problem["type"]) or problem["msg"].removeprefix("Value error, ")
            quoted = " (given: " in message  # by a nested model
            given = f" (given: {shorten(repr(problem['input']), 60)})" if key and not quoted else ""
            sentences.append(f"{line}{key or 'settings'}: {message}{given}.")
    return sentences


def _in_words(place: tuple[int | str, ...]) -> str:
    """Name a place, counting from 1: `comparisons[1].methods[2]` is the second method of the first comparison."""
    words = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in place)
    return words.removeprefix(".")


def _fields_beside(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """Return the valid keys next to a wrong one; `place` is the path of keys and positions to it."""
    for part in place[:-1]:
        if isinstance(part, str):
            model = next(kind for kind in _inside(model.model_fields[part].annotation) if hasattr(kind, "model_fields"))
    return list(model.model_fields)


def _inside(annotation: Any) -> Iterator[Any]:
    """Yield a type and all types in its brackets."""
    yield annotation
    for argument in get_args(annotation):
        yield from _inside(argument)
