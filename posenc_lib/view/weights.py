"""Pictures of a model's trained numbers, as the notebooks on learned tables, T5 and RoPE draw those of toys."""

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from posenc_lib.view.figure import heatmap, show


def draw_table(table: Tensor) -> None:
    """Show the singular values of a learned table (max_length, D), and its rows along the first three directions."""
    P = table.double()
    U, S, _ = torch.linalg.svd(P - P.mean(0), full_matrices=False)
    fig = plt.figure(figsize=(9, 3.8))
    left, right = fig.add_subplot(1, 2, 1), fig.add_subplot(1, 2, 2, projection="3d")
    left.semilogy(range(1, len(S) + 1), S / S[0], ".")
    left.set(xlabel="direction", ylabel="singular value, first = 1")
    right.plot(*U[:, :3].T, lw=1)
    right.set(xticks=[], yticks=[], zticks=[], title="rows, three directions")
    show(fig, "A learned table.", "Left, singular values that fall; right, a path in three dimensions.")


def draw_bias(encoder: Tensor, decoder: Tensor) -> None:
    """Show the trained numbers of a T5, (num_buckets, H) each."""
    fig, axes = plt.subplots(1, 2, figsize=(9, 3.2))
    for ax, weight, title in zip(axes, (encoder, decoder), ("encoder", "decoder"), strict=True):
        heatmap(ax, weight.T)
        ax.set(xlabel="bucket", ylabel="head", title=title)
    show(fig, "The bias of a T5.", "Two matrices, heads by buckets; far buckets on the right of each side.")


def draw_pairs(of_queries: Tensor, of_keys: Tensor) -> None:
    """Show how long the part of queries (H, r/2) and of keys (G, r/2) is that each pair turns."""
    fig, axes = plt.subplots(1, 2, figsize=(9, 3.2))
    for ax, norms, title in zip(axes, (of_queries, of_keys), ("queries", "keys"), strict=True):
        heatmap(ax, norms, signed=False, vmin=0)
        ax.set(xlabel="pair, fast to slow", ylabel="head", title=title)
        ax.set_yticks(range(len(norms)))
    show(fig, "How long each pair is.", "Two matrices, heads by pairs, bright where the part of a pair is long.")
