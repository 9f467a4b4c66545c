"""Seeds: every stream of random numbers has a name; its seed depends only on the run's seed and that name."""

import hashlib

import torch


def derived_seed(seed: int, stream: str) -> int:
    """Return the 63-bit seed of a named stream, the same in every process."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{stream}".encode()).digest()[:8], "big") >> 1


def generator(seed: int, stream: str, device: torch.device | str = "cpu") -> torch.Generator:
    """Make the generator of a named stream."""
    return torch.Generator(device).manual_seed(derived_seed(seed, stream))


def seed_globally(seed: int, device: torch.device | str = "cpu") -> None:
    """Seed torch's global generators: that of the CPU and, if the device is a GPU, those of all GPUs.

    As `torch.manual_seed`, which also writes down the whole call stack for each kind of device that is not there.
    """
    torch.default_generator.manual_seed(seed)
    if torch.device(device).type == "cuda":
        torch.cuda.manual_seed_all(seed)


def epoch_order(seed: int, epoch: int, count: int) -> torch.Tensor:
    """Return the order of the training images in an epoch, a function of seed and epoch; (count,) long."""
    return torch.randperm(count, generator=generator(seed, f"order/{epoch}"))


def global_state(device: torch.device) -> dict[str, torch.Tensor]:
    """Return the state of torch's global generators, which dropout uses."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def restore_global_state(state: dict[str, torch.Tensor], device: torch.device) -> None:
    """Restore what `global_state` returned."""
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
