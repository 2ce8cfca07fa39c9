"""``make bench``: how fast the library is, as ratios taken in one run, beside other people's implementations.

One thread, float32, torch.no_grad. All candidates of a table take turns, and the medians are compared, so that whatever
else the machine does slows all of them alike.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

import torch
from rotary_embedding_torch.rotary_embedding_torch import apply_rotary_emb
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as gptj
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as llama
from x_transformers.x_transformers import apply_rotary_pos_emb as x_transformers

from posenc_lib.schemes.rope import inverse_frequencies, rotate

ROUNDS = 15
SHAPES = ((1, 8, 2048, 64), (4, 16, 1024, 64))  # (B, H, L, d)


def medians(candidates: Mapping[str, Callable], rounds: int = ROUNDS) -> dict[str, float]:
    """Median seconds of each candidate, after one call that is not counted."""
    times = {name: [] for name in candidates}
    for turn in range(rounds + 1):
        for name, call in candidates.items():
            start = time.perf_counter()
            call()
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def rope(shape: tuple[int, ...]) -> dict[str, Callable]:
    """Rotate q and k; cosines and sines are computed beforehand, as far as an implementation lets them be."""
    q, k = torch.randn(2, *shape)
    length, width = shape[-2:]
    positions, inv_freq = torch.arange(length), inverse_frequencies(width)
    angles = (positions[:, None] * inv_freq).float()
    sin, cos = angles.sin()[None], angles.cos()[None]  # one for each pair: GPT-J
    sin_half, cos_half = torch.cat([sin, sin], dim=-1), torch.cat([cos, cos], dim=-1)  # one for each component: Llama
    pairs = angles.repeat_interleave(2, dim=-1)
    q_t, k_t = q.transpose(1, 2).contiguous(), k.transpose(1, 2).contiguous()  # GPT-J keeps (B, L, H, d)
    return {
        "copy": lambda: (q.clone(), k.clone()),
        "interleaved": lambda: (rotate(q, positions, inv_freq), rotate(k, positions, inv_freq)),
        "half": lambda: (rotate(q, positions, inv_freq, "half"), rotate(k, positions, inv_freq, "half")),
        "transformers GPT-J": lambda: (gptj(q_t, sin, cos), gptj(k_t, sin, cos)),
        "transformers Llama": lambda: llama(q, k, cos_half, sin_half),
        "rotary-embedding-torch": lambda: (apply_rotary_emb(pairs, q), apply_rotary_emb(pairs, k)),
        "x-transformers": lambda: (x_transformers(q, pairs[None]), x_transformers(k, pairs[None])),
    }


# Of a function above: our candidate, the others that compute the same, the target as a multiple of a copy.
ROWS = (
    (rope, "interleaved", ("transformers GPT-J", "rotary-embedding-torch", "x-transformers"), 2),
    (rope, "half", ("transformers Llama",), 2),
)

# Seconds that an import takes once torch is there, and the target.
IMPORTS = (
    ("posenc_lib", 0.2),
    ("posenc_lib.attention, posenc_lib.schemes.rope", 0.2),
)


def import_seconds(modules: str, rounds: int = 5) -> float:
    """Median seconds of ``import modules`` in a fresh Python that has imported torch."""
    program = f"import time, torch; t = time.perf_counter(); import {modules}; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", program]
    return statistics.median(float(subprocess.check_output(command)) for _ in range(rounds))


def main() -> None:
    """Print the tables."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"as a multiple of a plain copy; torch {torch.__version__}, one thread, float32, medians of {ROUNDS}\n")
    print(f"{'':<18} {'(B, H, L, d)':<18} {'ours':>6} {'target':>7}   {'theirs':>6} {'theirs / ours':>14}")
    for shape in SHAPES:
        for make in dict.fromkeys(make for make, *_ in ROWS):
            with torch.no_grad():
                seconds = medians(make(shape))
            for _, ours, others, target in (row for row in ROWS if row[0] is make):
                for other in others:
                    own, their = seconds[ours] / seconds["copy"], seconds[other] / seconds["copy"]
                    name = f"{make.__name__} {ours}"
                    print(
                        f"{name:<18} {shape!s:<18} {own:6.1f} {f'<= {target}':>7}   {their:6.1f} "
                        f"{their / own:14.1f}   {other}"
                    )
    print(f"\n{'import beyond torch':<52} {'seconds':>7} {'target':>7}")
    for modules, target in IMPORTS:
        print(f"{modules:<52} {import_seconds(modules):7.3f} {f'< {target}':>7}")


if __name__ == "__main__":
    main()
