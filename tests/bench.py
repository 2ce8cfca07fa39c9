"""``make bench``: how fast the library is, as ratios taken in one run, beside other people's implementations.

With OPTIONS=--sliders it also asks every slider of the course, in JupyterLab and on the site that make site built. That
takes half an hour.

One thread, float32, torch.no_grad. All candidates of a table take turns, and the medians are compared, so that whatever
else the machine does slows all of them alike. Memory is the most that a call takes beyond what was there before it.
"""

import ctypes
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from browser.speed import ratios, recorded
from rotary_embedding_torch.rotary_embedding_torch import apply_rotary_emb
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as gptj
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as llama
from transformers.models.t5.modeling_t5 import T5Attention, T5Config
from x_transformers.x_transformers import apply_rotary_pos_emb as x_transformers

from posenc_lib.lab.model import TinyTransformer
from posenc_lib.relative import toeplitz_rows_reversed
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.alibi import Alibi
from posenc_lib.schemes.fire import Fire
from posenc_lib.schemes.none import NoPosition
from posenc_lib.schemes.rope import Rotary, cos_sin, inverse_frequencies, turn
from posenc_lib.schemes.shaw import Shaw, clipped_index
from posenc_lib.schemes.t5 import T5Bias
from posenc_lib.schemes.transformer_xl import TransformerXL

ROUNDS = 15
M_MMAP_THRESHOLD = -3  # of mallopt, in malloc.h
SHAPES = ((1, 8, 2048, 64), (4, 16, 1024, 64))  # (B, H, L, d)


def medians(candidates: Mapping[str, Callable], rounds: int = ROUNDS) -> dict[str, float]:
    """Median seconds of each candidate, after one call that is not counted."""
    times = {name: [] for name in candidates}
    for number in range(rounds + 1):
        for name, call in candidates.items():
            start = time.perf_counter()
            call()
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def rope(shape: tuple[int, ...]) -> dict[str, Callable]:
    """Rotate q and k; cosines and sines are computed beforehand, as far as an implementation lets them be."""
    q, k = torch.randn(2, *shape)
    length, width = shape[-2:]
    angles = (torch.arange(length)[:, None] * inverse_frequencies(width)).float()
    once = cos_sin(angles)
    sin, cos = angles.sin()[None], angles.cos()[None]  # one for each pair: GPT-J
    sin_half, cos_half = torch.cat([sin, sin], dim=-1), torch.cat([cos, cos], dim=-1)  # one for each component: Llama
    pairs = angles.repeat_interleave(2, dim=-1)
    q_t, k_t = q.transpose(1, 2).contiguous(), k.transpose(1, 2).contiguous()  # GPT-J keeps (B, L, H, d)
    return {
        "copy": lambda: (q.clone(), k.clone()),
        "interleaved": lambda: (turn(q, *once), turn(k, *once)),
        "half": lambda: (turn(q, *once, "half"), turn(k, *once, "half")),
        "transformers GPT-J": lambda: (gptj(q_t, sin, cos), gptj(k_t, sin, cos)),
        "transformers Llama": lambda: llama(q, k, cos_half, sin_half),
        "rotary-embedding-torch": lambda: (apply_rotary_emb(pairs, q), apply_rotary_emb(pairs, k)),
        "x-transformers": lambda: (x_transformers(q, pairs[None]), x_transformers(k, pairs[None])),
    }


def shaw() -> tuple[Callable, Callable]:
    """Shaw's term of the score at L = 1024, H = 8, d = 64, K = 32: from 2K + 1 logits, and from an (L, L, d) table."""
    length, scheme, q = 1024, Shaw(64, 32), torch.randn(1, 8, 1024, 64)
    p = torch.arange(length)

    def gather() -> torch.Tensor:
        vectors = scheme.key_table[clipped_index(p - p[:, None], 32)]
        return torch.einsum("bhld,lrd->bhlr", q, vectors) / 8

    def pick() -> torch.Tensor:
        return scheme.score_bias(q, q, scheme.per_pair(p, p))

    torch.testing.assert_close(pick(), gather())
    return pick, gather


def t5() -> tuple[Callable, Callable]:
    """T5's bias at L = 2048, H = 8: a view of one number per distance, and the (L, L) table of transformers."""
    length, scheme = 2048, T5Bias(8)
    other = T5Attention(T5Config(num_heads=8), has_relative_attention_bias=True)
    other.relative_attention_bias.weight.copy_(scheme.weight)
    distances = torch.arange(1 - length, length)

    def view() -> torch.Tensor:
        return toeplitz_rows_reversed(scheme.distance_bias(distances), length)

    def table() -> torch.Tensor:
        return other.compute_bias(length, length)

    torch.testing.assert_close(view().flip(1), table()[0])
    return view, table


def bias_of(scheme: PositionScheme, length: int) -> torch.Tensor:
    """What attention hands to the fused kernel: the causal bias of all pairs, rows in reverse order."""
    distances = torch.arange(1 - length, length)
    return toeplitz_rows_reversed(
        scheme.distance_bias(distances).float().masked_fill(distances > 0, -torch.inf), length
    )


# What is compared, with what, how much faster it must be and which part of the memory it may take.
TERMS = (
    (shaw, "(L, L, d) gather", 7, 1 / 5),
    (t5, "transformers' compute_bias", 80, 1 / 10),
)


def mebibytes(call: Callable) -> float:
    """The most memory that ``call`` takes beyond what is there before it; Linux only.

    Read in a process of its own, in which the allocator gives every block above 64 KiB back to the system at once.
    """
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 2**16)
        libc.malloc_trim(0)
        call()  # the code itself is in memory now
        Path("/proc/self/clear_refs").write_text("5")  # forget the highest mark
        before = resident("VmRSS")
        call()
        os.write(write, str((resident("VmHWM") - before) / 1024).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        grown = float(answer.read())
    os.waitpid(child, 0)
    return grown


def resident(mark: str) -> int:
    """A line of /proc/self/status, in KiB."""
    return next(int(s.split()[1]) for s in Path("/proc/self/status").read_text().splitlines() if s.startswith(mark))


def forward(scheme: PositionScheme) -> tuple[Callable, Callable]:
    """The lab's model with four layers on (32, 64) tokens: placed once per forward, and anew in every layer."""
    model, tokens = TinyTransformer(scheme, vocabulary=16, num_layers=4), torch.randint(16, (32, 64))
    positions = torch.arange(64)

    def anew() -> torch.Tensor:
        x = scheme.embed(model.embedding(tokens), positions)
        for block in model.blocks:
            x = block(x, scheme.at(positions, like=x), None)
        return model.answer(model.norm(x))

    torch.testing.assert_close(model(tokens), anew())
    return lambda: model(tokens), anew


def asked(scheme: PositionScheme) -> int:
    """How often one forward of that model asks what the positions decide."""
    calls = 0

    def counted(ask: Callable) -> Callable:
        def count(*arguments):
            nonlocal calls
            calls += 1
            return ask(*arguments)

        return count

    for method in ("per_token", "per_pair", "distance_bias"):
        if hasattr(scheme, method):
            setattr(scheme, method, counted(getattr(scheme, method)))
    run, _ = forward(scheme)
    calls = 0
    run()
    return calls


# Of a function above: our candidate, the others that compute the same, the target as a multiple of a copy.
ROWS = (
    (rope, "interleaved", ("transformers GPT-J", "rotary-embedding-torch", "x-transformers"), 1.6),
    (rope, "half", ("transformers Llama",), 2.5),
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
                    wanted = f"<= {target}" if shape == SHAPES[-1] else ""  # small tensors are ruled by the calls
                    print(
                        f"{name:<18} {shape!s:<18} {own:6.1f} {wanted:>7}   {their:6.1f} {their / own:14.1f}   {other}"
                    )
    print(f"\n{'':<8} {'ours':>19} {'theirs':>20}   {'faster':>7} {'target':>7} {'memory':>7} {'target':>7}")
    for make, other, faster, part in TERMS:
        with torch.no_grad():
            ours, theirs = make()
            seconds = medians({"ours": ours, "theirs": theirs})
            memory = {"ours": mebibytes(ours), "theirs": mebibytes(theirs)}
        both = "  ".join(f"{1000 * seconds[who]:6.1f} ms {memory[who]:5.1f} MiB" for who in seconds)
        quicker, share = seconds["theirs"] / seconds["ours"], memory["ours"] / memory["theirs"]
        targets = f"{quicker:7.1f} {f'>= {faster}':>7} {share:7.3f} {f'<= {part:.2f}':>7}"
        print(f"{make.__name__:<8} {both}   {targets}   {other}")
    print(f"\n{'bias of attention at L = 2048, H = 8, causal':<52} {'MiB':>7} {'target':>7}")
    for scheme in (Alibi(8), T5Bias(8)):
        with torch.no_grad():
            print(f"{type(scheme).__name__:<52} {mebibytes(lambda s=scheme: bias_of(s, 2048)):7.2f} {'< 2':>7}")
    columns = f"{'asked':>7} {'target':>7} {'ratio to asking anew':>22} {'target':>7}"
    print(f"\n{'forward of the lab, four layers':<36} {columns}")
    for scheme in (NoPosition(), Rotary(16), Alibi(4), T5Bias(4), Shaw(16, 32), TransformerXL(4, 16), Fire(4)):
        with torch.no_grad():
            once, anew = forward(scheme)
            seconds = medians({"once": once, "anew": anew})
            ratio, name = seconds["once"] / seconds["anew"], type(scheme).__name__
            print(f"{name:<36} {asked(scheme):7d} {'<= 1':>7} {ratio:22.2f} {'<= 1':>7}")
    print(f"\n{'import beyond torch':<52} {'seconds':>7} {'target':>7}")
    for modules, target in IMPORTS:
        print(f"{modules:<52} {import_seconds(modules):7.3f} {f'< {target}':>7}")
    if "--sliders" in sys.argv:
        sliders()


def sliders() -> None:
    """Print how fast every slider answers, beside a bare interact and on the site."""
    for pixels, target in ((1, 0.18), (2, 0.25)):
        title = f"slider as a part of a bare interact, {pixels} pixel{'s' * (pixels > 1)} per point"
        print(f"\n{title:<68} {'part':>7} {'target':>8}")
        for notebook, label, part in ratios(pixels):
            print(f"{f'{notebook}: {label}':<68} {part:7.2f} {f'<= {target}':>8}", flush=True)
    site = Path(__file__).parents[1] / "build" / "site"
    if not site.exists():
        print("\nno site in build/site: make site makes it")
        return
    print(f"\n{'slider on the site':<68} {'ms':>7} {'target':>8}")
    times = []
    for notebook, label, answer in recorded(site):
        times.append(answer)
        print(f"{f'{notebook}: {label}':<68} {answer:7.0f}", flush=True)
    print(f"{'median':<68} {statistics.median(times):7.0f} {'<= 30':>8}")


if __name__ == "__main__":
    main()
