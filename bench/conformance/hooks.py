"""Whether runs call the hooks that a method means to have, and which hook an exception that names no line came from."""

import re
import traceback
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from augbench.bench.common.user_code import own_line
from augbench.bench.conformance.outcome import ConformanceError
from augbench.bench.conformance.starting import CALL_BASE, DRAWS_OF_SHARED_SPACE
from augbench.bench.conformance.subject import Subject
from augbench.bench.contract.method import Method, SharedSpaceMethod

# What a hook is to return, as advice goes on from "`hook` must return".
RETURNS = {
    "wrap_network": "the network to train, a torch.nn.Module",
    "search": "nothing; what is found goes into `learnable`",
    "start_epoch": "nothing",
    "augment": "AugmentedBatch(images) with a float tensor in [0, 1], (copies · batch, channels, height, width)",
    "draw": "a Draw, as `self.context.space.sample(…)` makes it",
    "loss": "a tensor with the loss of each copy of each image, (copies, batch)",
    "regulariser": "one number as a tensor, or None",
    "after_backward": "nothing, and leave network and gradients of the network alone",
    "after_epoch": "nothing",
    "test_policy": "a function of images and generator that returns transformed images, or None",
    "sample_transforms": "a float tensor (count, 2, 3), or None",
    "describe_policy": "an AffinePolicy or an OperationPolicy, or None",
    "learned": "a dictionary of names and Python floats",
    "state_dict": "a dictionary of tensors, numbers, texts, lists and dictionaries",
    "load_state_dict": "nothing; it restores what `state_dict` returned",
}
PROPERTIES = ("copies",)
SURELY_MEANT = 0.9  # similarity of two names, from 0 to 1
PERHAPS_MEANT = 0.8


def hooks(subject: Subject) -> str | None:
    """Each public method with a name like a hook's is that hook, and `search` comes with `searches`."""
    target = subject.target
    _check_search(target)
    if hasattr(target, "draw") and not issubclass(target, SharedSpaceMethod) and target.augment is Method.augment:
        raise ConformanceError(
            "It has a `draw` that nothing calls, since it derives from Method and has no `augment`.",
            "Derive it from SharedSpaceMethod, whose `augment` calls `draw`.",
        )
    remarks = []
    for name, hook, similarity in _look_alikes(target):
        if similarity >= SURELY_MEANT:
            raise ConformanceError(
                f"No run calls `{name}`, though its name is close to that of the hook `{hook}`.",
                f"Call it `{hook}` if that is meant; else give it another name, or one that begins with an underscore.",
            )
        remarks.append(f"`{name}` is no hook and no run calls it; is `{hook}` meant?")
    return " ".join(remarks) or None


def _check_search(target: type[Method[Any]]) -> None:
    has_one = target.search is not Method.search
    if has_one and not target.searches:
        raise ConformanceError(
            "It has a `search` that no run calls, since `searches` is False.",
            "Set the class attribute: searches = True.",
        )
    if target.searches and not has_one:
        raise ConformanceError(
            "`searches` is True, but it has no `search` of its own.",
            "Override `search(problem)`, or leave `searches` out.",
        )


def _look_alikes(target: type[Method[Any]]) -> Iterator[tuple[str, str, float]]:
    """Public methods that are no hook, each with the hook that it is most like.

    A hook that the method has already is not meant, unless the names are the same but for their spelling.
    """
    free = [hook for hook in (*RETURNS, *PROPERTIES) if not _is_overridden(target, hook)]
    for one, name in _own_methods(target):
        same = [hook for hook in RETURNS if hook not in vars(one) and _similarity(name, hook) == 1]
        similarity, hook = max(((_similarity(name, hook), hook) for hook in (*free, *same)), default=(0.0, ""))
        if similarity >= PERHAPS_MEANT:
            yield name, hook, similarity


def _own_methods(target: type[Method[Any]]) -> Iterator[tuple[type[Any], str]]:
    """Public methods and properties that the contract does not have, with the class that each stands in."""
    for one in target.__mro__:
        if one.__module__ == Method.__module__ or not issubclass(one, Method):
            continue
        for name, member in vars(one).items():
            is_method = callable(member) or isinstance(member, property | staticmethod | classmethod)
            if is_method and not isinstance(member, type) and not name.startswith("_"):
                if not hasattr(SharedSpaceMethod, name):
                    yield one, name


def _is_overridden(target: type[Method[Any]], hook: str) -> bool:
    base = SharedSpaceMethod if issubclass(target, SharedSpaceMethod) else Method
    return getattr(target, hook, None) is not getattr(base, hook, None) or not hasattr(base, hook)


def _similarity(name: str, hook: str) -> float:
    """Compare two names, without capitals, underscores and ways of spelling: 1 for the same."""
    first, second = (text.lower().replace("_", "").replace("z", "s") for text in (name, hook))
    return SequenceMatcher(None, first, second).ratio()


def advice_on(error: BaseException, target: type[Method[Any]], files: Sequence[Path]) -> str:
    """Say what to do about an exception that a method's code, or what it returned, has led to.

    Args:
        error: The exception.
        target: The method.
        files: Its files.
    """
    text = str(error)
    if re.search(r"object has no attribute '(hyperparameters|context|learnable|optimizers)'", text):
        return CALL_BASE
    if text.endswith("has no attribute 'setting'"):
        return "Write `self.context`: `self.setting` was its name in augbench 0.1."
    if text.startswith("'Hyperparameters' object has no attribute"):
        return "Set the class attribute `hyperparameters_type` to the class that has it."
    if own_line(error, *files):
        return "Fix that line: runs pass it the same arguments."
    hook = _last_hook(error, target)
    if hook is None:
        return "The traceback has no line of the method: look at what its hooks return and change."
    return f"The traceback has no line of the method, but shows a call of `{hook}`: it must return {RETURNS[hook]}."


def _last_hook(error: BaseException, target: type[Method[Any]]) -> str | None:
    """The method's own hook that stands in the innermost line that names one."""
    pattern = re.compile(rf"\.({'|'.join(RETURNS)})\(")
    lines = [frame.line or "" for frame in traceback.extract_tb(error.__traceback__)]
    for match in filter(None, map(pattern.search, reversed(lines))):
        if _is_overridden(target, match[1]):
            return match[1]
        if issubclass(target, SharedSpaceMethod) and match[1] in DRAWS_OF_SHARED_SPACE:
            return "draw"
    return None
