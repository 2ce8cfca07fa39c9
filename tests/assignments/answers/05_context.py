"""Other right answers to assignment 5, and wrong ones that its tests must name: each block replaces an answer."""
# ruff: noqa: B905, E402, F811, F821

# %% turns-test
theta = inverse_frequencies(mine.d, mine.base)
turned = int((mine.L * theta >= 2 * math.pi).sum())
kept = sum(mine.L * mine.base ** (-2 * t / mine.d) >= 64 * math.pi for t in range(mine.d // 2))
needed_length = 1
while needed_length * mine.base ** (-2 * mine.pair / mine.d) < 2 * math.pi:
    needed_length += 1


# %% turns-test names "the number of the last one is not their count"
turned -= 1


# %% turns-test names "32 turns are 64 pi"
kept = math.floor(mine.d / 2 * math.log(mine.L / 32, mine.base)) + 1


# %% turns-test names "round up"
needed_length -= 1


# %% turns-test names "a whole number"
turned = float(turned)


# %% carries-test
def carries_to(theta, new, L):
    return min(L * a / b for a, b in zip(theta.tolist(), new.tolist()) if L * a < 2 * math.pi)


# %% carries-test
def carries_to(theta, new, L):
    theta, new = theta.numpy(), new.numpy()
    return (L * theta / new)[L * theta < 2 * math.pi].min()


# %% carries-test
def carries_to(theta, new, L):
    return (L * theta / new)[L * theta < 2 * math.pi].min()


# %% carries-test names "float64"
def carries_to(theta, new, L):
    return (L * theta / new)[L * theta < 2 * math.pi].min().float()


# %% carries-test names "the first to leave it sets the limit"
def carries_to(theta, new, L):
    return float(L * theta[-1] / new[-1])


# %% carries-test names "set no limit"
def carries_to(theta, new, L):
    return float((L * theta / new).min())


# %% carries-test names "with the old frequencies"
def carries_to(theta, new, L):
    return float((L * theta / new)[L * new < 2 * math.pi].min())


# %% carries-test names "that is a scale"
def carries_to(theta, new, L):
    return float((theta / new)[L * theta < 2 * math.pi].min())


# %% method-test
import numpy as np


def method_of(new, base, L):
    new, d = new.numpy(), 2 * len(new)
    t = np.arange(d // 2)
    theta = base ** (-2 * t / d)
    divisor = theta / new
    s = divisor[-1]
    g = np.clip((L * theta / (2 * np.pi) - 1) / 31, 0, 1)
    lists = {"none": 1 + 0 * t, "interpolation": s + 0 * t, "ntk": s ** (t / t[-1]), "by parts": 1 / ((1 - g) / s + g)}
    for word, expected in lists.items():
        if s > 1 - 1e-9 and np.allclose(divisor, expected, rtol=1e-9, atol=0):
            return [word, s]
    return ["other", 0]


# %% method-test names "third list"
def method_of(new, base, L):
    word, s = ("interpolation", 4.0) if new[0] < 1 else ("ntk", 8.0)
    return word, s


# %% method-test names "what lies between is not that of the paper"
def method_of(new, base, L):
    d = 2 * len(new)
    divisor = inverse_frequencies(d, base) / new
    s = float(divisor[-1])
    if abs(s - 1) < 1e-9:
        return "none", 1.0
    if abs(divisor[0] - s) < 1e-9:
        return "interpolation", s
    return ("ntk" if abs(divisor[1] - s ** (2 / (d - 2))) < 1e-9 else "by parts"), s


# %% method-test names "a word and a number expected"
def method_of(new, base, L):
    return "interpolation"


# %% safe-base-test
def safe_base(head_dim, base, L, s):
    for t in range(head_dim // 2):
        if L * base ** (-2 * t / head_dim) < 2 * math.pi:
            return base * s ** (head_dim / (2 * t))
    return base


# %% safe-base-test
def safe_base(head_dim, base, L, s):
    slow = [t for t in range(1, head_dim // 2) if L * base ** (-2 * t / head_dim) < 2 * math.pi]
    return max([base, *(base * s ** (head_dim / (2 * t)) for t in slow)])


# %% safe-base-test names "the first pair with new angles gets less"
def safe_base(head_dim, base, L, s):
    return base * s ** (head_dim / (head_dim - 2))


# %% safe-base-test names "which divides pair t by s^(2t/d) only"
def safe_base(head_dim, base, L, s):
    return base * s


# %% safe-base-test names "not in s L"
def safe_base(head_dim, base, L, s):
    for t in range(head_dim // 2):
        if s * L * base ** (-2 * t / head_dim) < 2 * math.pi:
            return base * s ** (head_dim / (2 * t))
    return base


# %% safe-base-test names "if every pair made a full turn, the base may stay"
def safe_base(head_dim, base, L, s):
    slow = [t for t in range(head_dim // 2) if L * base ** (-2 * t / head_dim) < 2 * math.pi]
    return base * s ** (head_dim / (2 * (slow or [head_dim // 2 - 1])[0]))


# %% ramp-test
import numpy as np


def ramp_bounds(theta, new, L):
    turns, s = L * theta.numpy() / (2 * np.pi), float(theta[-1] / new[-1])
    g = (new / theta * s - 1).numpy() / (s - 1)
    inside = (g > 1e-8) & (g < 1 - 1e-8)
    slope, start = np.polyfit(turns[inside], g[inside], 1)
    return np.array([-start / slope, (1 - start) / slope])


# %% ramp-test names "the order is beta_slow, beta_fast"
right = ramp_bounds


def ramp_bounds(theta, new, L):
    return right(theta, new, L)[::-1]


# %% ramp-test names "a turn is 2 pi of them"
right = ramp_bounds


def ramp_bounds(theta, new, L):
    return [2 * math.pi * bound for bound in right(theta, new, L)]


# %% ramp-test names "g blends the frequencies, not the divisors"
def ramp_bounds(theta, new, L):
    turns, s = L * theta / (2 * math.pi), theta[-1] / new[-1]
    g = (s - theta / new) / (s - 1)
    turns, g = (x[(g > 1e-8) & (g < 1 - 1e-8)] for x in (turns, g))
    slope = (g[0] - g[-1]) / (turns[0] - turns[-1])
    return float(turns[-1] - g[-1] / slope), float(turns[-1] + (1 - g[-1]) / slope)


# %% cache-error-test
def cache_error(q, keys, base, L, every):
    n, d = keys.shape
    cache = torch.empty(0, d, dtype=torch.float64)
    for length in range(1, n + 1):
        theta = dynamic_ntk(d, base, length, L).inv_freq
        cache = torch.cat([cache, rotate(keys[length - 1 : length], torch.tensor([length - 1]), theta)])
        if length % every == 0:
            cache = rotate(keys[:length], torch.arange(length), theta)
    query = rotate(q[None], torch.tensor([n - 1]), theta)[0]
    right = rotate(keys, torch.arange(n), theta)
    return [float(query @ a - query @ b) / math.sqrt(d) for a, b in zip(cache, right)]


# %% cache-error-test
import numpy as np


def cache_error(q, keys, base, L, every):
    (n, d), q, keys = keys.shape, q.numpy(), keys.numpy()
    p, t = np.arange(n), np.arange(d // 2)
    lengths = np.maximum(p + 1, n // every * every)
    held, now = (
        (base * np.maximum(1, x / L)[:, None] ** (d / (d - 2))) ** (-2 * t / d) for x in (lengths, np.array([n]))
    )
    products = (q[::2] + 1j * q[1::2]) * (keys[:, ::2] - 1j * keys[:, 1::2])
    cached, right = (products * np.exp(1j * ((n - 1) * now - p[:, None] * theta)) for theta in (held, now))
    return (cached - right).real.sum(1) / math.sqrt(d)


# %% cache-error-test names "the cache is never renewed"
def cache_error(q, keys, base, L, every):
    n, d = keys.shape
    rules = [dynamic_ntk(d, base, length, L).inv_freq for length in range(1, n + 1)]
    cache = torch.cat([rotate(keys[m : m + 1], torch.tensor([m]), rules[m]) for m in range(n)])
    query = rotate(q[None], torch.tensor([n - 1]), rules[-1])[0]
    return (cache - rotate(keys, torch.arange(n), rules[-1])) @ query / d**0.5


# %% cache-error-test names "the newest key is renewed with the others"
def cache_error(q, keys, base, L, every):
    n, d = keys.shape
    rules = [dynamic_ntk(d, base, max(p + 1, (n - 1) // every * every), L).inv_freq for p in range(n)]
    cache = torch.cat([rotate(keys[m : m + 1], torch.tensor([m]), rules[m]) for m in range(n)])
    now = dynamic_ntk(d, base, n, L).inv_freq
    query = rotate(q[None], torch.tensor([n - 1]), now)[0]
    return (cache - rotate(keys, torch.arange(n), now)) @ query / d**0.5


# %% cache-error-test names "rotated cache minus right"
right = cache_error


def cache_error(*given):
    return -right(*given)


# %% cache-error-test names "divide the scores by the square root of d"
right = cache_error


def cache_error(q, keys, *given):
    return right(q, keys, *given) * keys.shape[1] ** 0.5


# %% cache-error-test names "float64"
right = cache_error


def cache_error(*given):
    return right(*given).float()


# %% keeping-test
def keeping_factor(lead, others, s):
    wanted, low, high = 1 / (1 + others * math.exp(-lead)), 0.0, 50.0
    for _ in range(100):
        f = (low + high) / 2
        low, high = (f, high) if 1 / (1 + s * others * math.exp(-f * f * lead)) < wanted else (low, f)
    return f


# %% keeping-test names "queries and keys share it"
def keeping_factor(lead, others, s):
    return 1 + math.log(s) / lead


# %% keeping-test names "YaRN's factor"
def keeping_factor(lead, others, s):
    return 0.1 * math.log(s) + 1


# %% keeping-test names "the number of the others cancels"
def keeping_factor(lead, others, s):
    return math.sqrt(1 + math.log(s * others) / lead)
