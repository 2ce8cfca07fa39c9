"""Other right answers to assignment 3, and wrong ones that its tests must name: each block replaces an answer."""
# ruff: noqa: E402, F811, F821


# %% exact-reach-test
def exact_reach(row_of, reach):
    rows = {r: int(row_of(torch.tensor([r]))) for r in range(-reach, reach + 1)}
    for n in range(reach + 1):
        for r in (n, -n):
            if any(rows[r] == rows[other] for other in rows if other != r):
                return n - 1
    return reach


# %% exact-reach-test
import numpy as np


def exact_reach(row_of, reach):
    rows = row_of(torch.arange(-reach, reach + 1)).numpy()
    names, counts = np.unique(rows, return_counts=True)
    shared = abs(np.arange(-reach, reach + 1))[np.isin(rows, names[counts > 1])]
    return int(shared.min()) - 1 if len(shared) else reach


# %% exact-reach-test names "serves all farther distances too"
def exact_reach(row_of, reach):
    n = -1
    while n < reach and len(set(row_of(torch.arange(-n - 1, n + 2)).tolist())) == 2 * n + 3:
        n += 1
    return n


# %% bucket-start-test
def bucket_start(bucket, num_buckets, max_distance):
    e = num_buckets // 2
    if bucket < e:
        return bucket
    start = math.exp(math.log(e) + (bucket - e) / (num_buckets - e) * math.log(max_distance / e))
    return round(start) if abs(start - round(start)) < 1e-9 else int(start) + 1


# %% bucket-start-test
def bucket_start(bucket, num_buckets, max_distance):
    e = num_buckets // 2
    low, high = 0, max_distance
    while low < high:
        x = (low + high) // 2
        found = x if x < e else e + int((num_buckets - e) * math.log(x / e) / math.log(max_distance / e) + 1e-12)
        low, high = (low, x) if min(found, num_buckets - 1) >= bucket else (x + 1, high)
    return low


# %% bucket-start-test names "round up"
def bucket_start(bucket, num_buckets, max_distance):
    e = num_buckets // 2
    return bucket if bucket < e else int(e * (max_distance / e) ** ((bucket - e) / (num_buckets - e)))


# %% needed-test
def last(distance, max_distance):
    found = relative_position_bucket(torch.tensor([-distance]), False, mine.buckets, max_distance)
    return int(found) == mine.buckets - 1


needed_distance = mine.far
while last(mine.far, needed_distance):
    needed_distance += 1

# %% needed-test names "the distance is still in the last bucket"
e = mine.buckets // 2
needed_distance = int(e * (mine.far / e) ** (e / (e - 1)))


# %% convention-test
def convention(term, clip):
    rows, L = 2 * clip + 1, 3 * clip + 3
    one_hot = term(torch.ones(L, rows, dtype=torch.float64), torch.eye(rows, dtype=torch.float64))
    if one_hot.min() <= 0 or one_hot.max() - one_hot.min() > 1e-9:
        return "neither"
    answers = {"j - i", "i - j"}
    for row in range(rows):
        q = torch.zeros(L, rows, dtype=torch.float64)
        q[:, row] = torch.arange(1, L + 1)  # tells queries from keys
        read = term(q, torch.eye(rows, dtype=torch.float64)) / one_hot.max()
        for i in range(L):
            for j in range(L):
                for answer, r in (("j - i", j - i), ("i - j", i - j)):
                    wanted = (i + 1.0) * (max(-clip, min(clip, r)) + clip == row)
                    if abs(read[i, j] - wanted) > 1e-9:
                        answers.discard(answer)
    return answers.pop() if answers else "neither"


# %% convention-test
def convention(term, clip):
    L = 4 * clip + 2
    q, table = torch.rand(L, 5, dtype=torch.float64) + 1, torch.rand(2 * clip + 1, 5, dtype=torch.float64) + 1
    i, j = torch.meshgrid(torch.arange(L), torch.arange(L), indexing="ij")
    for answer, r in (("j - i", j - i), ("i - j", i - j)):
        ratio = term(q, table) / torch.einsum("id,ijd->ij", q, table[r.clamp(-clip, clip) + clip])
        if ratio.min() > 0 and ratio.max() - ratio.min() < 1e-9:
            return answer
    return "neither"


# %% convention-test names "may be multiplied by a positive constant"
def convention(term, clip):
    p = torch.arange(2 * clip + 4)
    q, table = torch.randn(len(p), 3, dtype=torch.float64), torch.randn(2 * clip + 1, 3, dtype=torch.float64)
    for answer, r in (("j - i", p - p[:, None]), ("i - j", p[:, None] - p)):
        if torch.allclose(term(q, table), (q @ table.T).gather(1, r.clamp(-clip, clip) + clip)):
            return answer
    return "neither"


# %% from-music-test
def from_music(E, clip):
    rows = []
    for r in range(-clip, clip + 1):
        known = r <= 0 and -r < len(E)
        rows.append(E[len(E) - 1 + r] if known else torch.zeros(E.shape[1], dtype=torch.float64))
    return torch.stack(rows)


# %% from-music-test
import numpy as np


def from_music(E, clip):
    left = np.concatenate([np.zeros((clip + 1, E.shape[1])), E.numpy()])[-clip - 1 :]
    return np.concatenate([left, np.zeros((clip, E.shape[1]))])


# %% from-music-test names "float64"
def from_music(E, clip):
    table = torch.zeros(2 * clip + 1, E.shape[1])
    for x in range(min(clip + 1, len(E))):
        table[clip - x] = E[len(E) - 1 - x]
    return table


# %% recover-test
def recover_bias(weights, q, k, num_buckets, max_distance):
    b = [0.0] * num_buckets
    for i in range(len(q)):
        for j in range(len(q)):
            own, other = (math.log(weights[i, x]) - float(q[i] @ k[x]) for x in (i, j))
            bucket = relative_position_bucket(torch.tensor([j - i]), True, num_buckets, max_distance)
            b[int(bucket)] = other - own
    return b


# %% recover-test
def recover_bias(weights, q, k, num_buckets, max_distance):
    p = torch.arange(len(q))
    bucket = relative_position_bucket(p - p[:, None], True, num_buckets, max_distance).flatten()
    factor = weights / (q @ k.T).exp()
    factor = (factor / factor.diagonal()[:, None]).flatten()
    summed = torch.zeros(num_buckets, dtype=torch.float64).scatter_add(0, bucket, factor)
    count = torch.zeros(num_buckets, dtype=torch.float64).scatter_add(0, bucket, torch.ones_like(factor))
    return torch.where(count > 0, summed / count, 1.0).log()


# %% recover-test names "divided by a number of its own"
def recover_bias(weights, q, k, num_buckets, max_distance):
    p = torch.arange(len(q))
    b = torch.zeros(num_buckets, dtype=torch.float64)
    b[relative_position_bucket(p - p[:, None], True, num_buckets, max_distance)] = weights.log() - q @ k.T
    return b


# %% rows-test
seen = {j - i for i in range(mine.length - mine.new, mine.length) for j in range(mine.length)}
occurring = len(seen)
rows_causal = len({max(-mine.clip, r) for r in seen if r <= 0})
rows_both = len({max(-mine.clip, min(mine.clip, r)) for r in seen})
