"""Other right answers to assignment 6, and wrong ones that its tests must name: each block replaces an answer."""
# ruff: noqa: B905, E402, F811, F821

# %% expected-test
test_error = 0.5 / (mine.texts * (64 - mine.back)) ** 0.5
texts_needed = 1
while 0.5 / (texts_needed * (16 - mine.back)) ** 0.5 >= mine.error:
    texts_needed += 1


# %% expected-test names "take the root"
test_error = 0.25 / (mine.texts * (64 - mine.back))


# %% expected-test names "the first places are not scored"
test_error = math.sqrt(0.25 / (mine.texts * 64))


# %% expected-test names "round up"
texts_needed -= 1


# %% expected-test names "16 tokens, not 64"
texts_needed = math.ceil(0.25 / mine.error**2 / (64 - mine.back))


# %% verdict-test
def verdict(first, second):
    signs = {(a > b) - (a < b) for a in first for b in second}
    return {(1,): "first", (-1,): "second"}.get(tuple(signs), "not clear")


# %% verdict-test names "the ranges overlap in the second case"
def verdict(first, second):
    return "first" if sum(first) / len(first) > sum(second) / len(second) else "second"


# %% verdict-test names "ranges that only touch are not clear"
def verdict(first, second):
    return "first" if min(first) >= max(second) else "second" if min(second) >= max(first) else "not clear"


# %% verdict-test names "not seed by seed"
def verdict(first, second):
    if all(a > b for a, b in zip(first, second)):
        return "first"
    return "second" if all(a < b for a, b in zip(first, second)) else "not clear"


# %% verdict-test names "got 'First'"
def verdict(first, second):
    return "First"


# %% false_alarm-test
def false_alarm(n, m):
    import itertools

    placements = list(itertools.combinations(range(n + m), n))
    return sum(max(p) == n - 1 or min(p) == m for p in placements) / len(placements)


# %% false_alarm-test names "either of the two schemes"
def false_alarm(n, m):
    return 1 / math.comb(n + m, n)


# %% false_alarm-test names "may have different numbers of seeds"
def false_alarm(n, m):
    return 2 / math.comb(2 * n, n)


# %% false_alarm-test names "are not independent"
def false_alarm(n, m):
    return 2 * 0.5 ** (n * m)


# %% any_alarm-test
any_alarm = sum(mine.alarm * (1 - mine.alarm) ** before for before in range(mine.comparisons))


# %% any_alarm-test names "no comparison raises an alarm"
any_alarm = (1 - mine.alarm) ** mine.comparisons


# %% any_alarm-test names "which counts two alarms twice"
any_alarm = mine.alarm * mine.comparisons


# %% any_alarm-test names "exactly one alarm"
any_alarm = mine.comparisons * mine.alarm * (1 - mine.alarm) ** (mine.comparisons - 1)


# %% found_share-test
p = torch.arange(64)
p = p + 20 * (p // mine.block)
found_share = float((p[mine.back :] - p[: -mine.back] == mine.back).double().mean())


# %% found_share-test names "they do not count"
found_share = sum(max(min(mine.block, 64 - start) - mine.back, 0) for start in range(0, 64, mine.block)) / 64


# %% found_share-test names "the share that is lost"
found_share = 1 - found_share


# %% found_share-test names "the last block is shorter"
found_share = 1 - mine.back / mine.block


# %% found_share-test names "a number (a float)"
found_share = "half"


# %% agreement-test
import numpy as np


def agreement(model, positions, seed):
    tokens = torch.randint(16, (128, len(positions)), generator=torch.Generator().manual_seed(1000 + seed))
    answers, tokens = model(tokens, positions).numpy().argmax(2), tokens.numpy()
    return np.array([np.mean(answers[:, k:] == tokens[:, : len(positions) - k]) for k in range(len(positions))])


# %% agreement-test
def agreement(model, positions, seed):
    L = len(positions)
    tokens = torch.randint(TOKENS, (128, L), generator=torch.Generator().manual_seed(1000 + seed))
    answers, tokens = model(tokens, positions).argmax(-1).tolist(), tokens.tolist()
    shares = []
    for k in range(L):
        hits = [a[i] == t[i - k] for a, t in zip(answers, tokens) for i in range(k, L)]
        shares.append(sum(hits) / len(hits))
    return shares


# %% agreement-test names "neither above nor below the line"
def agreement(model, positions, seed):
    L = len(positions)
    tokens = torch.randint(TOKENS, (128, L), generator=torch.Generator().manual_seed(1000 + seed))
    answers = model(tokens, positions).argmax(-1)
    return torch.stack([(answers[:, k:] == tokens[:, : L - k]).double().sum() / (128 * L) for k in range(L)])


# %% agreement-test names "roll brings tokens from the end"
def agreement(model, positions, seed):
    tokens = torch.randint(TOKENS, (128, len(positions)), generator=torch.Generator().manual_seed(1000 + seed))
    answers = model(tokens, positions).argmax(-1)
    return torch.stack([(answers == tokens.roll(k, 1)).double().mean() for k in range(len(positions))])


# %% agreement-test names "not after"
def agreement(model, positions, seed):
    L = len(positions)
    tokens = torch.randint(TOKENS, (128, L), generator=torch.Generator().manual_seed(1000 + seed))
    answers = model(tokens, positions).argmax(-1)
    return torch.stack([(answers[:, : L - k] == tokens[:, k:]).double().mean() for k in range(L)])


# %% agreement-test names "the seed 1000 + seed"
right = agreement


def agreement(model, positions, seed):
    return right(model, positions, seed - 1000)


# %% agreement-test names "float64"
right = agreement


def agreement(model, positions, seed):
    return right(model, positions, seed).float()
