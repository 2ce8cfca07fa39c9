"""Other right answers to assignment 1, and wrong ones that its tests must name: each block replaces an answer."""
# ruff: noqa: E402, F811, F821


# %% repeated-test
def repeated(order, times):
    places = list(range(len(order)))
    for _ in range(abs(times)):
        if times > 0:
            places = [places[int(x)] for x in order]
        else:
            undone = [0] * len(order)
            for new, old in enumerate(order.tolist()):
                undone[old] = places[new]
            places = undone
    return places


# %% repeated-test
import numpy as np


def repeated(order, times):
    matrix = np.eye(len(order))[order.numpy()]
    return np.linalg.matrix_power(matrix, times).argmax(-1)


# %% repeated-test
def repeated(order, times):
    if times < 0:
        undo = torch.zeros_like(order)
        undo.scatter_(0, order, torch.arange(len(order)))
        return repeated(undo, -times)
    return order[repeated(order, times - 1)] if times else torch.arange(len(order))


# %% repeated-test names "undoing is another order than doing"
def repeated(order, times):
    result = torch.arange(len(order))
    for _ in range(abs(times)):
        result = result[order]
    return result


# %% kind-test
def kind(f, length, width):
    x = torch.rand(length, width, dtype=torch.float64)
    orders = [torch.randperm(length) for _ in range(10)]
    invariant = all(torch.allclose(f(x[o]), f(x), rtol=0, atol=1e-9) for o in orders)
    try:
        equivariant = all(torch.allclose(f(x[o]), f(x)[o], rtol=0, atol=1e-9) for o in orders)
    except (IndexError, RuntimeError):
        equivariant = False
    return {(0, 0): "neither", (0, 1): "invariant", (1, 0): "equivariant", (1, 1): "both"}[equivariant, invariant]


# %% kind-test names "a circle survives shifts"
def kind(f, length, width):
    x = torch.randn(length, width, dtype=torch.float64)
    order = torch.arange(length).roll(2)
    moved, before = f(x[order]), f(x)
    stays = (moved - before).abs().max() < 1e-9
    moves = before.dim() > 0 and len(before) == length and (moved - before[order]).abs().max() < 1e-9
    return ("both" if stays else "equivariant") if moves else ("invariant" if stays else "neither")


# %% survivors-test
def survivors(mask):
    n, count = len(mask), 0
    for p in itertools.permutations(range(n)):
        count += all(mask[p[i], p[j]] == mask[i, j] for i in range(n) for j in range(n))
    return count


# %% survivors-test
import numpy as np


def survivors(mask):
    M = mask.numpy().astype(int)
    identity = np.eye(len(M), dtype=int)
    return sum(
        np.array_equal(identity[list(p)] @ M @ identity[list(p)].T, M) for p in itertools.permutations(range(len(M)))
    )


# %% survivors-test names "you permuted the rows and not the columns"
def survivors(mask):
    return sum(torch.equal(mask[list(p)], mask) for p in itertools.permutations(range(len(mask))))


# %% unique-test
def unique(encode, n):
    rows = encode(torch.arange(n)).tolist()
    return all(
        any(abs(a - b) > 1e-9 for a, b in zip(rows[i], rows[j], strict=True)) for i in range(n) for j in range(i)
    )


# %% unique-test
def unique(encode, n):
    return len(encode(torch.arange(n)).round(decimals=9).unique(dim=0)) == n


# %% unique-test names "you compared neighbours"
def unique(encode, n):
    P = encode(torch.arange(n))
    return all(bool((P[i] - P[i + 1]).abs().max() > 1e-9) for i in range(n - 1))


# %% bounded-test
def bounded(encode, n, limit):
    return all(-limit <= x <= limit for row in encode(torch.arange(n)).tolist() for x in row)


# %% same-test
def same(encode, n):
    P = encode(torch.arange(n)).numpy()
    return all(abs(encode(torch.arange(m)).numpy() - P[:m]).max() < 1e-9 for m in range(2, n))


# %% distance-test
def distance(encode, n):
    P = encode(torch.arange(n))
    for k in range(n):
        dots = [float(P[p] @ P[p + k]) for p in range(n - k)]
        if max(dots) - min(dots) > 1e-9:
            return False
    return True


# %% distance-test names "you compared neighbours only"
def distance(encode, n):
    P = encode(torch.arange(n))
    dots = (P[1:] * P[:-1]).sum(-1)
    return bool(dots.max() - dots.min() < 1e-9)


# %% repeats-test
repeats_after = 1
while (repeats_after * mine.a1) % mine.b1 or (repeats_after * mine.a2) % mine.b2:
    repeats_after += 1

# %% repeats-test names "a pair can be back before b positions"
repeats_after = math.lcm(mine.b1, mine.b2)
