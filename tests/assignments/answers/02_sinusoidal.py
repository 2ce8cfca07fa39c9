"""Other right answers to assignment 2, and wrong ones that its tests must name: each block replaces an answer."""
# ruff: noqa: E402, F811, F821

# %% encode_halves-test
import numpy as np


def encode_halves(positions, dim, base):
    angles = np.outer(positions.numpy(), base ** (-np.arange(0, dim, 2) / dim))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


# %% encode_halves-test
def encode_halves(positions, dim, base):
    rows = []
    for p in positions.tolist():
        theta = [base ** (-2 * t / dim) for t in range(dim // 2)]
        rows.append([math.sin(p * x) for x in theta] + [math.cos(p * x) for x in theta])
    return rows


# %% encode_halves-test
def encode_halves(positions, dim, base):
    rows = [shift_matrix(float(p), dim, base) @ encode(torch.tensor([0]), dim, base)[0] for p in positions]
    P = torch.stack(rows)
    return torch.cat([P[:, 0::2], P[:, 1::2]], dim=1)


# %% encode_halves-test names "float64"
def encode_halves(positions, dim, base):
    theta = base ** (-2 * torch.arange(dim // 2) / dim)
    angles = positions.float()[:, None] * theta
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


# %% first_negative-test
first_negative = 0
while math.cos(first_negative * mine.base ** (-2 * mine.pair / mine.dim)) >= 0:
    first_negative += 1


# %% first_negative-test names "at that position the cosine is still positive"
first_negative = int(math.pi / 2 * mine.base ** (2 * mine.pair / mine.dim))


# %% sum_factor-test
def sum_factor(k, dim, base):
    return (shift_matrix(k, dim, base) + shift_matrix(-k, dim, base)).diagonal()


# %% sum_factor-test
def sum_factor(k, dim, base):
    factor = torch.zeros(dim, dtype=torch.float64)
    for t in range(dim // 2):
        factor[2 * t] = factor[2 * t + 1] = 2 * math.cos(k * base ** (-2 * t / dim))
    return factor


# %% sum_factor-test names "a factor is missing"
def sum_factor(k, dim, base):
    return (k * frequencies(dim, base)).cos().repeat_interleave(2)


# %% extend-test
def extend(first, second, factor, count):
    rows = torch.empty(count, len(first), dtype=torch.float64)
    for n in range(count):
        first, second = second, factor * second - first
        rows[n] = second
    return rows


# %% extend-test
import numpy as np


def extend(first, second, factor, count):
    rows = [first.numpy(), second.numpy()]
    while len(rows) < count + 2:
        rows.append(factor.numpy() * rows[-1] - rows[-2])
    return np.array(rows[2:])


# %% extend-test names "you added the older row"
def extend(first, second, factor, count):
    rows = [first, second]
    for _ in range(count):
        rows.append(factor * rows[-1] + rows[-2])
    return torch.stack(rows[2:])


# %% step_angles-test
def step_angles(P):
    hands = torch.complex(P[:, 1::2], P[:, 0::2])
    return (hands[1] / hands[0]).angle()


# %% step_angles-test
def step_angles(P):
    angles = torch.atan2(P[:, 0::2], P[:, 1::2])
    return (angles[1] - angles[0]) % (2 * math.pi)


# %% step_angles-test
def step_angles(P):
    return [
        math.asin(float(P[1, t] * P[0, t + 1] - P[1, t + 1] * P[0, t])) for t in range(0, P.shape[1], 2)
    ]  # at most 1, so below a quarter of a turn


# %% step_angles-test
import numpy as np


def step_angles(P):
    angles = np.arctan2(P[:, 0::2].numpy(), P[:, 1::2].numpy())
    return np.diff(np.unwrap(angles, axis=0), axis=0).mean(0)


# %% step_angles-test names "may be off by a full turn"
def step_angles(P):
    angles = torch.atan2(P[:, 0::2], P[:, 1::2])
    return angles[1] - angles[0]


# %% step_angles-test names "the hands turn forward"
def step_angles(P):
    angles = torch.atan2(P[:, 1::2], P[:, 0::2])
    return (angles[1] - angles[0] + math.pi) % (2 * math.pi) - math.pi


# %% recover_base-test
def recover_base(angles):
    pairs = len(angles)
    return angles[-1] ** (-pairs / (pairs - 1))


# %% recover_base-test
def recover_base(angles):
    steps = [math.log(b / a) for a, b in zip(angles[:-1].tolist(), angles[1:].tolist(), strict=True)]
    return math.exp(-len(angles) * sum(steps) / len(steps))


# %% recover_base-test names "its frequency is not yet 1/base"
def recover_base(angles):
    return 1 / angles[-1]


# %% shift_error-test
import numpy as np


def shift_error(encoding, k, length):
    here, there = (encoding(torch.arange(length) + shift).numpy() for shift in (0, k))
    rest = here @ np.linalg.lstsq(here, there, rcond=None)[0] - there
    return np.sqrt((rest**2).sum() / (there**2).sum())


# %% shift_error-test
def shift_error(encoding, k, length):
    here, there = encoding(torch.arange(length)), encoding(torch.arange(k, k + length))
    return (here @ (torch.linalg.pinv(here) @ there) - there).norm() / there.norm()


# %% shift_error-test names "are too few"
def shift_error(encoding, k, length):
    E = encoding(torch.arange(length))
    here, there = (E[:-k], E[k:]) if k > 0 else (E[-k:], E[:k])
    return float((best_fit(here, there) - there).norm() / there.norm())


# %% shift_error-test names "are too few"
def shift_error(encoding, k, length):
    E = encoding(torch.arange(length))
    return float((best_fit(E[:-k], E[k:]) - E[k:]).norm() / E[k:].norm())


# %% reader-test
def reader(offset, weights, dim, base):
    W = torch.zeros(dim, dim, dtype=torch.float64)
    for t in range(dim // 2):
        angle = offset * base ** (-2 * t / dim)
        c, s = weights[t] * math.cos(angle), weights[t] * math.sin(angle)
        W[2 * t, 2 * t], W[2 * t, 2 * t + 1], W[2 * t + 1, 2 * t], W[2 * t + 1, 2 * t + 1] = c, -s, s, c
    return W


# %% reader-test
def reader(offset, weights, dim, base):
    return torch.diag(weights.repeat_interleave(2)) @ shift_matrix(offset, dim, base).T


# %% reader-test names "float64"
def reader(offset, weights, dim, base):
    return (weights.repeat_interleave(2)[:, None] * shift_matrix(-offset, dim, base)).float()


# %% reader-test names "your peak is on the other side"
def reader(offset, weights, dim, base):
    return weights.repeat_interleave(2)[:, None] * shift_matrix(offset, dim, base)
