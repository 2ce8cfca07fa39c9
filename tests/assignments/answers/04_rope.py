"""Other right answers to assignment 4, and wrong ones that its tests must name: each block replaces an answer."""
# ruff: noqa: B905, F811, F821


# %% rotate_pairs-test
def rotate_pairs(x, positions, pairs, theta):
    y = [list(row) for row in x.tolist()]
    for row, p in zip(y, positions.tolist()):
        for (a, b), angle in zip(pairs.tolist(), theta.tolist()):
            c, s = math.cos(p * angle), math.sin(p * angle)
            row[a], row[b] = c * row[a] - s * row[b], s * row[a] + c * row[b]
    return y


# %% rotate_pairs-test
def rotate_pairs(x, positions, pairs, theta):
    x, (a, b) = x.numpy().copy(), pairs.numpy().T
    z = (x[:, a] + 1j * x[:, b]) * np.exp(1j * np.outer(positions, theta))
    x[:, a], x[:, b] = z.real, z.imag
    return x


# %% rotate_pairs-test
def rotate_pairs(x, positions, pairs, theta):
    y, places = x.clone(), pairs.flatten()
    y[:, places] = rotate(x[:, places], positions, theta)
    return y


# %% rotate_pairs-test names "float64"
def rotate_pairs(x, positions, pairs, theta):
    y, places = x.clone(), pairs.flatten()
    y[:, places] = rotate(x[:, places], positions, theta)
    return y.float()


# %% rotate_pairs-test names "you had already overwritten it"
def rotate_pairs(x, positions, pairs, theta):
    angles = positions[:, None] * theta
    a, b = pairs.T
    x[:, a] = angles.cos() * x[:, a] - angles.sin() * x[:, b]
    x[:, b] = angles.sin() * x[:, a] + angles.cos() * x[:, b]
    return x


# %% rotate_pairs-test names "cannot be broadcast"
def rotate_pairs(x, positions, pairs, theta):
    angles = positions * theta
    a, b = pairs.T
    y = x.clone()
    y[:, a] = angles.cos() * x[:, a] - angles.sin() * x[:, b]
    return y


# %% rotate_pairs-test names "you turn the other way"
def rotate_pairs(x, positions, pairs, theta):
    y, places = x.clone(), pairs.flatten()
    y[:, places] = rotate(x[:, places], -positions, theta)
    return y


# %% cosines-test
def cosines(q, k):
    q, k = q.numpy(), k.numpy()
    phase = np.arctan2(k[1::2], k[::2]) - np.arctan2(q[1::2], q[::2])
    return np.hypot(q[::2], q[1::2]) * np.hypot(k[::2], k[1::2]), phase + 2 * np.pi


# %% cosines-test
def cosines(q, k):
    products = [complex(*k[i : i + 2]) * complex(*q[i : i + 2]).conjugate() for i in range(0, len(q), 2)]
    return [abs(z) for z in products], [math.atan2(z.imag, z.real) for z in products]


# %% cosines-test names "right up to the sign of the phases"
def cosines(q, k):
    q, k = (torch.view_as_complex(x.view(-1, 2)) for x in (q, k))
    return (q * k.conj()).abs(), (q * k.conj()).angle()


# %% cosines-test names "not known from its cosine alone"
def cosines(q, k):
    amplitude = torch.hypot(q[::2], q[1::2]) * torch.hypot(k[::2], k[1::2])
    return amplitude, torch.acos((q[::2] * k[::2] + q[1::2] * k[1::2]) / amplitude)


# %% cosines-test names "not known from its tangent alone"
def cosines(q, k):
    amplitude = torch.hypot(q[::2], q[1::2]) * torch.hypot(k[::2], k[1::2])
    return amplitude, torch.atan(k[1::2] / k[::2]) - torch.atan(q[1::2] / q[::2])


# %% cosines-test names "the conjugate is missing"
def cosines(q, k):
    q, k = (torch.view_as_complex(x.view(-1, 2)) for x in (q, k))
    return (q * k).abs(), (q * k).angle()


# %% peak-test
peak = max(
    range(-(360 // mine.step) + 1, 1),
    key=lambda r: math.cos(math.radians(mine.key_angle + r * mine.step - mine.query_angle)),
)


# %% peak-test names "it must turn less, not more"
peak = (mine.key_angle - mine.query_angle) // mine.step - 360 // mine.step


# %% peak-test names "the score is at its lowest"
peak = min(
    range(-(360 // mine.step) + 1, 1),
    key=lambda r: math.cos(math.radians(mine.key_angle + r * mine.step - mine.query_angle)),
)


# %% peak-test names "a whole number"
peak = (mine.query_angle - mine.key_angle) / mine.step


# %% relative_error-test
def relative_error(f_q, f_k, dim, length):
    units, values = torch.eye(dim, dtype=torch.float64), {}
    for m in range(length):
        for n in range(length):
            values.setdefault(n - m, []).append((f_q(units, m) @ f_k(units, n).T).numpy())
    return max(np.ptp(np.stack(found), axis=0).max() for found in values.values())


# %% relative_error-test
def relative_error(f_q, f_k, dim, length):
    units, error = torch.eye(dim, dtype=torch.float64), 0
    places = [(m, n) for m in range(length) for n in range(length)]
    scores = {(m, n): f_q(units, m) @ f_k(units, n).T for m, n in places}
    for m, n in places:
        for i, j in places:
            if n - m == j - i:
                error = max(error, (scores[m, n] - scores[i, j]).abs().max().item())
    return error


# %% relative_error-test names "x must be a tensor of torch.float64"
def relative_error(f_q, f_k, dim, length):
    units = torch.eye(dim)
    return float((f_q(units, 0) @ f_k(units, 0).T).max())


# %% relative_error-test names "not only with its first"
def relative_error(f_q, f_k, dim, length):
    units, error = torch.eye(dim, dtype=torch.float64), 0.0
    for r in range(1 - length, length):
        scores = [f_q(units, m) @ f_k(units, m + r).T for m in range(max(0, -r), min(length, length - r))]
        error = max(error, *(float((score - scores[0]).abs().max()) for score in scores))
    return error


# %% relative_error-test names "keys after the query count too"
def relative_error(f_q, f_k, dim, length):
    units, error = torch.eye(dim, dtype=torch.float64), 0.0
    for r in range(1 - length, 1):
        scores = torch.stack([f_q(units, m) @ f_k(units, m + r).T for m in range(-r, length)])
        error = max(error, float((scores.amax(0) - scores.amin(0)).max()))
    return error


# %% renumber-test
def renumber(keys, positions, keep, theta):
    rows = []
    for key, position in zip(keys[keep], positions[keep].tolist()):
        rows.append((rope.rotation_matrix(len(rows) - position, theta) @ key).tolist())
    return rows


# %% renumber-test
def renumber(keys, positions, keep, theta):
    kept, old = keys.numpy()[keep.numpy()], positions.numpy()[keep.numpy()]
    z = (kept[:, ::2] + 1j * kept[:, 1::2]) * np.exp(1j * np.outer(np.arange(len(old)) - old, theta))
    return np.stack([z.real, z.imag], axis=-1).reshape(kept.shape)


# %% renumber-test names "a pair stands side by side"
def renumber(keys, positions, keep, theta):
    old = positions[keep]
    return rotate(keys[keep], torch.arange(len(old)) - old, theta, "half")


# %% renumber-test names "the new positions begin at 0"
def renumber(keys, positions, keep, theta):
    old = positions[keep]
    return rotate(keys[keep], torch.arange(1, len(old) + 1) - old, theta)


# %% renumber-test names "you turned them by the new one on top of it"
def renumber(keys, positions, keep, theta):
    return rotate(keys[keep], torch.arange(int(keep.sum())), theta)


# %% renumber-test names "expected, got (3, 4)"
def renumber(keys, positions, keep, theta):
    return rotate(keys, keep.cumsum(0) - 1 - positions, theta)


# %% partners-test
def partners(turn, dim):
    found = []
    for i in range(dim):
        one = torch.zeros(1, dim, dtype=torch.float64)
        one[0, i] = 1
        moved = turn(one, torch.tensor([1]))[0].abs()
        moved[i] = 0
        found.append(int(moved.argmax()) if moved.max() > 1e-8 else i)
    return found


# %% partners-test
def partners(turn, dim):
    moved = turn(torch.eye(dim, dtype=torch.float64), torch.full((dim,), 100)).numpy().copy()
    np.fill_diagonal(moved, 1e-9)
    return np.abs(moved).argmax(1)


# %% partners-test names "x must be torch.float64"
def partners(turn, dim):
    return turn(torch.eye(dim), torch.ones(dim, dtype=torch.int64)).argmax(-1)


# %% partners-test names "is its own partner"
def partners(turn, dim):
    moved = turn(torch.eye(dim, dtype=torch.float64), torch.ones(dim, dtype=torch.int64)).abs()
    return moved.fill_diagonal_(0).argmax(-1)


# %% partners-test names "you assumed the interleaved layout"
def partners(turn, dim):
    return torch.arange(dim) ^ 1


# %% partners-test names "int64"
def partners(turn, dim):
    moved = turn(torch.eye(dim, dtype=torch.float64), torch.ones(dim, dtype=torch.int64)).abs()
    return moved.fill_diagonal_(1e-9).argmax(-1).double()


# %% leak-test
leak = abs(complex(math.cos(mine.shift * mine.theta), math.sin(mine.shift * mine.theta)) - 1)


# %% leak-test names "moves along the chord"
leak = mine.shift * mine.theta


# %% leak-test names "the square root is missing"
leak = 2 - 2 * math.cos(mine.shift * mine.theta)


# %% leak-test names "a number (a float)"
leak = torch.tensor(2 * math.sin(mine.shift * mine.theta / 2))


# %% relative_values-test
def relative_values(q, k, v, positions, theta):
    rows, R = [], rope.rotation_matrix
    for m, query in zip(positions.tolist(), q):
        distances = [n - m for n in positions.tolist()]
        scores = [float(query @ R(r, theta) @ key) / math.sqrt(len(query)) for r, key in zip(distances, k)]
        weights = [math.exp(score - max(scores)) for score in scores]
        turned = (w / sum(weights) * (R(r, theta) @ value) for w, r, value in zip(weights, distances, v))
        rows.append(sum(turned).tolist())
    return rows


# %% relative_values-test
def relative_values(q, k, v, positions, theta):
    turn = np.exp(1j * np.outer(positions, theta))
    q, k, v = ((x.numpy()[:, ::2] + 1j * x.numpy()[:, 1::2]) * turn for x in (q, k, v))
    weights = np.exp((q @ k.conj().T).real / math.sqrt(2 * q.shape[1]))
    z = (weights / weights.sum(1, keepdims=True)) @ v * turn.conj()
    return np.stack([z.real, z.imag], axis=-1).reshape(len(z), -1)


# %% relative_values-test names "the output depends on the absolute position"
def relative_values(q, k, v, positions, theta):
    q, k, v = (rotate(x, positions, theta) for x in (q, k, v))
    return (q @ k.T / math.sqrt(q.shape[1])).softmax(-1) @ v


# %% relative_values-test names "you turned by n + m"
def relative_values(q, k, v, positions, theta):
    q, k, v = (rotate(x, positions, theta) for x in (q, k, v))
    return rotate((q @ k.T / math.sqrt(q.shape[1])).softmax(-1) @ v, positions, theta)


# %% relative_values-test names "softmax over the keys"
def relative_values(q, k, v, positions, theta):
    q, k, v = (rotate(x, positions, theta) for x in (q, k, v))
    return rotate((q @ k.T / math.sqrt(q.shape[1])).softmax(0) @ v, -positions, theta)


# %% relative_values-test names "not divided by the square root of d"
def relative_values(q, k, v, positions, theta):
    q, k, v = (rotate(x, positions, theta) for x in (q, k, v))
    return rotate((q @ k.T).softmax(-1) @ v, -positions, theta)
