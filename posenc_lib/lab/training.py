"""Train a tiny model for a few seconds, and ask how often it is right."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_lib.lab.tasks import IGNORE


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: on tensors this small more of them wait for one another, and may round differently."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


Task = Callable[[int, int, torch.Generator], tuple[Tensor, Tensor]]


@one_thread()
def train(
    model: nn.Module,
    task: Task,
    length: int,
    steps: int,
    batch: int = 32,
    learning_rate: float = 2e-3,
    seed: int = 0,
    stop_below: float = 0.0,
) -> int:
    """Fit ``model`` in place to fresh batches of ``task``, with AdamW and a progress bar; return the updates made.

    Args:
        model: maps tokens (B, L) to logits (B, L, classes); trained on the device it is on.
        task: draws a batch, called as ``task(batch, length, generator)``.
        length: L of the training sequences.
        steps: number of updates; the learning rate rises over the first tenth and then falls to 0.
        batch: sequences per update.
        learning_rate: its highest value.
        seed: of the batches.
        stop_below: stop early once the mean loss of the last ten batches is below this.
    Example:
        >>> from posenc_lib import Rotary
        >>> from posenc_lib.lab import TinyTransformer, reverse
        >>> model = TinyTransformer(Rotary(16), vocabulary=16, causal=False)
        >>> train(model, reverse, length=8, steps=2)
        2
    """
    from tqdm.auto import tqdm  # comes with the course; the rest of the lab does without

    device = next(model.parameters()).device
    losses, made = deque([math.inf], maxlen=10), 0
    parameters = list(model.parameters())  # asked once: in a small model the search for them takes time
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=steps, pct_start=0.1)
    model.train()
    bar = tqdm(range(steps), desc="training", leave=False)
    for _ in bar:
        tokens, targets = (x.to(device) for x in task(batch, length, generator))
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        made += 1
        if stop_below > 0:  # reading the loss makes a GPU wait
            losses.append(loss.item())
            if sum(losses) / len(losses) < stop_below:
                bar.total = made - 1  # as many as it has counted: a bar that ends early would stay, in red
                break
    model.eval()
    return made


@torch.no_grad()
@one_thread()
def accuracy(model: nn.Module, task: Task, length: int, batch: int = 128, seed: int = 1) -> float:
    """Share of the scored places of one fresh batch at which the most likely answer is right; nan if none is scored.

    Example:
        >>> from posenc_lib import Rotary
        >>> from posenc_lib.lab import TinyTransformer, reverse
        >>> model = TinyTransformer(Rotary(16), vocabulary=16, causal=False)
        >>> accuracy(model, reverse, length=8) < 0.5  # it was not trained
        True
    """
    device = next(model.parameters()).device
    tokens, targets = (x.to(device) for x in task(batch, length, torch.Generator().manual_seed(seed)))
    right = model(tokens).argmax(-1) == targets
    return (right.sum() / (targets != IGNORE).sum()).item()
