"""Checks of what a method says about itself."""

from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from augbench.bench.conformance.outcome import ConformanceError
from augbench.bench.conformance.subject import Subject
from augbench.bench.contract.method import Hyperparameters
from augbench.bench.experiment.spec import validated


def card(subject: Subject) -> None:
    """Title, paper, description, version and deviations are there."""
    target = subject.target
    for attribute, meaning in (("title", "one line for tables"), ("paper", "where it was published, or 'unpublished'")):
        value = getattr(target, attribute)
        if not isinstance(value, str) or not value.strip() or "\n" in value:
            raise ConformanceError(f"It has no {attribute}.", f'Set the class attribute: {attribute} = "{meaning}".')
    if not (target.__doc__ or "").strip():
        raise ConformanceError("The class has no docstring.", "Say in a sentence what the method does.")
    if type(target.version) is not int or target.version < 1:
        raise ConformanceError(
            f"version is {target.version!r}.", "Make it a whole number from 1, to be raised when results change."
        )
    deviations = target.deviations
    if not isinstance(deviations, tuple) or not all(isinstance(line, str) and line for line in deviations):
        raise ConformanceError(
            "deviations is no tuple of sentences.",
            'List what differs from the paper, as in deviations = ("Adam instead of SGD.",), or leave it out.',
        )


def hyperparameters(subject: Subject) -> None:
    """Each has a description, a valid default, and limits or choices."""
    model = subject.target.hyperparameters_type
    if not issubclass(model, Hyperparameters):
        raise ConformanceError(
            f"hyperparameters_type is {model.__name__}, which does not derive from Hyperparameters.",
            "Derive it from augbench.bench.contract.method.Hyperparameters, so that unknown names are refused.",
        )
    _check_is_the_announced(subject.target)
    for name, field in model.model_fields.items():
        if not field.description:
            raise ConformanceError(
                f"The hyperparameter {name!r} has no description.",
                f'Declare it with one: {name}: … = Field(…, description="what it is, and its unit").',
            )
        if field.is_required() and name not in subject.target.quick_hyperparameters:
            raise ConformanceError(
                f"The hyperparameter {name!r} has no default.",
                "Give one, so that a suite can name the method without any settings; if none makes sense, put a value "
                "for checks into `quick_hyperparameters`.",
            )
        if _unlimited(field.annotation, tuple(field.metadata)):
            raise ConformanceError(
                f"The hyperparameter {name!r} has neither limits nor choices.",
                "Give a number ge, gt, le or lt in its Field; make the type of a text a Literal of its choices.",
            )
    quick = subject.target.quick_hyperparameters
    if not any(field.is_required() for field in model.model_fields.values()):
        validated(model, model().model_dump(), "its defaults")
    validated(model, quick, "quick_hyperparameters")


def _check_is_the_announced(target: type[Any]) -> None:
    """Refuse a `Method[MyHyperparameters]` that has other hyperparameters."""
    bases = [base for one in target.__mro__ for base in vars(one).get("__orig_bases__", ())]
    announced = [part for base in bases for part in get_args(base) if isinstance(part, type)]
    model = target.hyperparameters_type
    if announced and issubclass(announced[0], Hyperparameters) and not issubclass(model, announced[0]):
        name = announced[0].__name__
        raise ConformanceError(
            f"The class is for {name}, but its hyperparameters_type is {model.__name__}.",
            f"Set the class attribute: hyperparameters_type = {name}.",
        )


def _unlimited(annotation: Any, metadata: tuple[Any, ...]) -> bool:
    """Say whether a number has no bound, or a text no choices, pattern or other test."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _unlimited(inside[0], metadata + inside[1:])
    if origin in (Union, UnionType):
        return any(_unlimited(part, metadata) for part in inside)
    if annotation in (int, float):
        return not any(hasattr(limit, side) for limit in metadata for side in ("ge", "gt", "le", "lt"))
    return annotation is str and not metadata
