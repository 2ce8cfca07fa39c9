"""The notebooks notice: one wrong character in an output or one wrong sign in the library makes nbval fail.

Each change is made in a folder of its own, to a notebook or to the library beside it, which the notebook imports. One
run of nbval goes through all folders, in each up to the first cell that fails.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))

MUTATIONS = [  # notebook, module, right, wrong
    ("00_none", "../scheme.py", "return head_dim**-0.5", "return head_dim**-1"),  # the exponent
    ("00_none", "../attention.py", "w = s.softmax(-1)[", "w = s.softmax(-2)["),  # over the queries
    ("00_none", "../_fused.py", "is_causal=True", "is_causal=False"),  # no mask
    ("00_none", "../placed.py", "narrow(axis, n_keys - n, n)", "narrow(axis, 0, n)"),  # new queries at the first keys
    ("00_none", "../placed.py", "[..., None, :] <= self.query", "[..., None, :] < self.query"),  # a key hides itself
    ("00_none", "../relative.py", "key_positions[..., None, :] - query", "-key_positions[..., None, :] + query"),
    ("01_sinusoidal", "sinusoidal.py", "[c, s, -s, c]", "[c, -s, s, c]"),  # a sign in shift_matrix
    ("01_sinusoidal", "sinusoidal.py", "base ** (-2 * t / dim)", "base ** (-2 * t / (dim - 2))"),  # the exponent
    ("01_sinusoidal", "sinusoidal.py", "[angles.sin(), angles.cos()]", "[angles.cos(), angles.sin()]"),
    ("01_sinusoidal", "sinusoidal.py", "cos()], dim=-1).flatten(-2)", "cos()], dim=-2).flatten(-2)"),  # in halves
    ("01_sinusoidal", "sinusoidal.py", "x + encode(positions", "x - encode(positions"),
    ("02_learned", "learned.py", "positions.clamp(min=0).long()", "(positions - 1).clamp(min=0).long()"),  # a row early
    ("02_learned", "learned.py", "return x + rows.where(", "return x - rows.where("),
    ("02_learned", "learned.py", "(positions >= 0)[..., None]", "(positions > 0)[..., None]"),  # position 0 is padding
    ("02_learned", "learned.py", "cumsum(-1) - 1).masked_fill(", "cumsum(-1)).masked_fill("),  # counted from 1
    ("03_shaw", "shaw.py", "at_least=0), clip) + clip", "at_least=0), clip).neg() + clip"),
    ("03_shaw", "shaw.py", "clamp(-validate.integer(", "clamp(1 - validate.integer("),  # one row short on the left
    ("03_shaw", "shaw.py", "(q).mT * self.scale(self.head_dim)", "(q).mT"),
    ("03_shaw", "shaw.py", "sum_by_row(weights, pair,", "sum_by_row(weights, 2 * self.clip - pair,"),
    (
        "04_music_transformer",
        "music_transformer.py",
        "nn.functional.pad(logits, (1, 0))",
        "nn.functional.pad(logits, (0, 1))",
    ),
    ("04_music_transformer", "music_transformer.py", "length)[..., 1:, :]", "length)[..., :-1, :]"),  # the last row cut
    ("04_music_transformer", "music_transformer.py", "self.max_length - n :, :]", ": n, :]"),  # from the wrong end
    (
        "04_music_transformer",
        "music_transformer.py",
        "mT * self.scale(self.head_dim)",
        "mT * self.scale(self.head_dim) ** 2",
    ),
    ("05_transformer_xl", "transformer_xl.py", "distinct(-relative_position(", "distinct(relative_position("),
    ("05_transformer_xl", "transformer_xl.py", "((q + self.v.to(q)", "((q - self.v.to(q)"),  # a sign
    (
        "05_transformer_xl",
        "transformer_xl.py",
        "k.mT) * self.scale(self.head_dim)",
        "k.mT) * self.scale(self.head_dim) ** 2",
    ),
    ("05_transformer_xl", "transformer_xl.py", "pad(logits, (1, 0))", "pad(logits, (0, 1))"),
    ("06_xlnet", "xlnet.py", "else step < step[:, None]", "else step <= step[:, None]"),
    ("06_xlnet", "xlnet.py", "step = order.argsort()", "step = order"),  # the inverse permutation
    ("06_xlnet", "xlnet.py", "return step <= step[:, None] if", "return step >= step[:, None] if"),
    ("06_xlnet", "xlnet.py", "differs = key_segments != query_segments", "differs = key_segments == query_segments"),
    ("06_xlnet", "xlnet.py", "((q + self.segment_query", "((q - self.segment_query"),
    (
        "06_xlnet",
        "xlnet.py",
        "same[..., None]) * self.scale(self.head_dim)",
        "same[..., None]) * self.scale(self.head_dim) ** 2",
    ),
    ("06_xlnet", "transformer_xl.py", "distinct(-relative_position(", "distinct(relative_position("),
    ("07_nezha", "nezha.py", "torch.arange(-self.clip, self.clip + 1)", "torch.arange(self.clip, -self.clip - 1, -1)"),
    ("07_nezha", "nezha.py", "torch.arange(-self.clip, self.clip + 1)", "torch.arange(2 * self.clip + 1)"),  # from P_0
    ("07_nezha", "nezha.py", "self.clip + 1), self.head_dim)", "self.clip + 1).abs(), self.head_dim)"),
    ("07_nezha", "nezha.py", "(q).mT * self.scale(self.head_dim)", "(q).mT * self.scale(self.head_dim) ** 2"),
    ("07_nezha", "nezha.py", "return sum_by_row(weights, pair,", "return -sum_by_row(weights, pair,"),
    ("08_tener", "tener.py", "encode(relative, self.head_dim)", "encode(-relative, self.head_dim)"),
    ("08_tener", "tener.py", "encode(relative, self.head_dim)", "encode(relative.abs(), self.head_dim)"),  # no side
    ("08_tener", "tener.py", "index) + self.u.to(q)", "index) - self.u.to(q)"),  # a sign
    ("08_tener", "tener.py", "return 1.0", "return head_dim**-0.5"),  # the exponent
    ("09_huang", "huang.py", "relative + self.max_length - 1", "self.max_length - 1 - relative"),
    ("09_huang", "huang.py", "(from_queries + from_keys)", "(from_queries - from_keys)"),  # a sign
    ("09_huang", "huang.py", "return s * d**-0.5", "return s * d**-1"),  # the exponent
    ("09_huang", "huang.py", "relative_gather_by_key(k @ table.mT, pair)", "relative_gather(k @ table.mT, pair)"),
    ("09_huang", "huang.py", '"bhjd,bijd->bhij", k, a', '"bhid,bijd->bhij", k, a'),  # the key read as the query
    ("10_deberta", "deberta.py", "return (3 * head_dim) ** -0.5", "return (2 * head_dim) ** -0.5"),
    ("10_deberta", "deberta.py", "bucket_index(-distance, 0, self.k)", "bucket_index(distance, 0, self.k)"),  # of r
    ("10_deberta", "deberta.py", "(content_to_position + position_to", "(content_to_position - position_to"),  # a sign
    ("10_deberta", "deberta.py", "steps.ceil()", "steps.floor()"),  # buckets rounded as T5 does
    ("11_t5", "t5.py", "(r > 0).long() * num_buckets", "(r < 0).long() * num_buckets"),
    ("11_t5", "t5.py", "return 1.0", "return head_dim**-0.5"),  # the exponent
    ("11_t5", "t5.py", "distance = (-r).clamp(min=0)", "distance = r.abs()"),  # causal, keys to the right
    ("11_t5", "t5.py", "math.log(max_distance / exact)", "math.log(max_distance)"),  # the length of the ruler
    ("11_t5", "t5.py", "exact = num_buckets // 2", "exact = num_buckets // 4"),
    ("12_alibi", "alibi.py", "2 ** (-8 * (h - 0.5) / P)", "2 ** (-8 * (h + 0.5) / P)"),
    ("12_alibi", "alibi.py", "2 ** (-8 * h / P)", "2 ** (-8 * (h - 1) / P)"),  # the first slope 1
    ("12_alibi", "alibi.py", "return -slopes(", "return slopes("),  # far keys rewarded
    ("12_alibi", "alibi.py", "relative_position.double().abs()", "relative_position.double()"),  # keys on the right
    ("12_alibi", "alibi.py", "between[: H - P]", "between.flip(0)[: H - P]"),  # filled from the flat end
    ("13_rope", "rope.py", "torch.complex(cos, sin)", "torch.complex(cos, -sin)"),  # a sign in rotate, interleaved
    ("13_rope", "rope.py", "addcmul_(second, sin, value=-1)", "addcmul_(second, sin, value=1)"),  # the same, half
    ("13_rope", "sinusoidal.py", "base ** (-2 * t / dim)", "base ** (-t / dim)"),  # the exponent
    ("13_rope", "rope.py", "[c, -s, s, c]", "[c, s, -s, c]"),  # a sign in rotation_matrix
    ("13_rope", "rope.py", ".view(-1, 2).T.flatten()", ".view(2, -1).T.flatten()"),  # the other way between the layouts
    ("13_rope", "rope.py", "positions.device, torch.float64)", "positions.device, torch.float32)"),
    ("14_context_extension", "context_extension.py", "** (d / (d - 2)))", "** (d / (d + 2)))"),  # the exponent
    ("14_context_extension", "context_extension.py", "((x - start) / (end - start))", "((end - x) / (end - start))"),
    ("14_context_extension", "context_extension.py", "0.1 * math.log(s) + 1)", "0.2 * math.log(s) + 1)"),
    ("14_context_extension", "context_extension.py", "/ _at_least_1(", "* _at_least_1("),  # every pair faster
    ("15_cope", "cope.py", "x.flip(-1).cumsum(-1).flip(-1)", "x.cumsum(-1)"),  # counting from the wrong end
    ("15_cope", "cope.py", "j.long()) > 0, 0.0)", "j.long()) >= 0, 0.0)"),  # the own gate is missing
    ("15_cope", "cope.py", "below + 1), share)", "below + 1), 1 - share)"),  # the weights exchanged
    (
        "15_cope",
        "cope.py",
        "mT * self.scale(self.head_dim)\n        return interp",
        "mT * self.scale(self.head_dim) ** 2\n        return interp",
    ),
    ("16_grid", "grid.py", "inv_freq.repeat(n)", "inv_freq.repeat_interleave(n)"),  # the axes exchanged
    ("16_grid", "grid.py", "inverse_frequencies(head_dim // n, base)", "inverse_frequencies(head_dim // n, base**2)"),
    (
        "16_grid",
        "grid.py",
        "repeat_interleave(torch.tensor(counts))",
        "repeat_interleave(torch.tensor(counts[::-1]))",
    ),  # sections backwards
    ("16_grid", "grid.py", "phases = 2 * math.pi *", "phases = math.pi *"),  # half a period
    ("17_learned_penalties", "kerple.py", "torch.log1p(r2 * distance)", "torch.log1p(distance / r2)"),
    ("17_learned_penalties", "kerple.py", "return -r1 * distance**r2", "return -r1 * distance ** (1 / r2)"),
    ("17_learned_penalties", "fire.py", "torch.maximum(i.double()", "torch.minimum(i.double()"),  # no threshold
    ("17_learned_penalties", "fire.py", "torch.log1p(c * distance) /", "(c * distance) /"),
    ("17_learned_penalties", "fox.py", "p.contiguous(), right=True)", "p.contiguous(), right=False)"),  # j to i - 1
    ("17_learned_penalties", "fox.py", "return -(c_i[..., :, None]", "return (c_i[..., :, None]"),
    ("18_in_use", "sinusoidal.py", "base ** (-2 * t / dim)", "base ** (-2 * t / (dim + 2))"),  # the base's exponent
    ("18_in_use", "../configs/fields.py", "return bool(flags[layer])", "return not flags[layer]"),  # read by its name
    ("18_in_use", "../configs/readers.py", "SLIDING if (layer + 1) % pattern", "SLIDING if layer % pattern"),
    ("18_in_use", "temperature.py", "return 1 + validate.real", "return validate.real"),
    ("18_in_use", "decoupled.py", "turn(position, *token,", "turn(position, token[0], -token[1],"),  # backwards
    (
        "18_in_use",
        "context_extension.py",
        "theta[int(partial_rotary_factor * head_dim // 2) :] = 0.0",
        "theta[int(partial_rotary_factor * head_dim) :] = 0.0",
    ),  # the fraction
    ("19_one_law", "xpos.py", "(cos, sin)) / factor", "(cos, sin)) * factor"),
    ("19_one_law", "xpos.py", "(cos, sin)) * factor", "(cos, sin)) / factor"),  # queries that grow too
    ("19_one_law", "xpos.py", "(2 * t / head_dim", "(t / head_dim"),  # the exponent
    ("19_one_law", "xpos.py", "** power[..., None]", "** -power[..., None]"),  # the sign: far keys rewarded
    ("19_one_law", "fox.py", "return -(c_i[..., :, None]", "return (c_i[..., :, None]"),  # what is forgotten, rewarded
    ("19_one_law", "path.py", "q = q - passed[", "q = q + passed["),  # I + beta w w^T
    ("19_one_law", "path.py", "[..., None, :] <= i[", "[..., None, :] < i["),  # the query's own factor is missing
    ("19_one_law", "selective.py", "return cos_sin(phi_q), cos_sin(phi_k)", "return cos_sin(-phi_q), cos_sin(-phi_k)"),
    ("20_comparison", "../lab/statistics.py", 'bool(entry.result["met"] and', "bool(True and"),  # all count as trained
    ("20_comparison", "../lab/report.py", 'TIMES.index(validate.choice("times", times, TIMES))', "TIMES.index(1)"),
    ("25_why", "../lab/near.py", " * (distance < self.count)", ""),  # far distances get the last number, too
    ("21_near_and_far", "../lab/cards.py", "others = s.masked_fill(right, -torch.inf)", "others = s"),  # N and itself
    ("21_near_and_far", "temperature.py", "return 1 + validate.real", "return validate.real"),
    ("21_near_and_far", "sinusoidal.py", "base ** (-2 * t / dim)", "base ** (-2 * t / (dim + 2))"),
    ("21_near_and_far", "../configs/readers.py", "SLIDING if (layer + 1) % pattern", "SLIDING if layer % pattern"),
    ("22_how_far", "../lab/practice.py", "(long - 2 * short)", "(long - short)"),
    ("22_how_far", "../lab/octaves.py", "more = np.diff([0.0, *asked])", "more = np.array(asked)"),  # of the whole text
    ("22_how_far", "../lab/octaves.py", "[:, :first].sum(1)", "[:, first:].sum(1)"),
    ("22_how_far", "../lab/octaves.py", "enumerate((length, longer))", "enumerate((length, length))"),  # no gap
    ("22_how_far", "../_fused.py", "is_causal=True", "is_causal=False"),  # no mask
    ("23_choice", "../_fused.py", "and here.offset is not None:", "and here.offset is None:"),  # ALiBi stores all pairs
    (
        "23_choice",
        "../lab/practice.py",
        '"alike" if symmetric(scheme) else "both"',
        '"both" if symmetric(scheme) else "alike"',
    ),
    (
        "24_how_sure",
        "../lab/statistics.py",
        "less, resamples, seed, 0 if paired else 1)",
        "less, resamples, seed, 0)",
    ),
    ("24_how_sure", "../lab/ranks.py", " and not guesses(cell, times)]", "]"),  # who guesses has a rank, too
    ("25_why", "../lab/mended.py", "far - self.lower - ", "far - "),  # nothing is lowered
]

ONE_FAILURE_EACH = """
import pytest

failed = set()


def pytest_runtest_setup(item):
    if item.parent in failed:
        pytest.skip("a cell above failed")


def pytest_exception_interact(node):
    failed.add(node.parent)
"""


def first_failures(root):
    """By folder below ``root``: the number of the first code cell that fails there, and what nbval says about it."""
    shutil.copy(ROOT / "notebooks" / "conftest.py", root)
    (root / "pytest.ini").write_text("[pytest]")
    (root / "one_failure_each.py").write_text(ONE_FAILURE_EACH)
    command = [sys.executable, ROOT / "tests/notebooks/forked_kernels.py", sys.executable, "-m", "pytest", "--nbval"]
    options = ["--nbval-kernel-name=python3", "--nbval-cell-timeout=600", "--junitxml=report.xml"]
    options += [f"--nbval-sanitize-with={ROOT / 'tests/notebooks/sanitize.cfg'}", "--import-mode=importlib"]
    options += ["-p", "one_failure_each", "-p", "no:cacheprovider", "."]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # it would come first
    run = subprocess.run([*command, *options], cwd=root, env=environment, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout + run.stderr
    cases = ElementTree.parse(root / "report.xml").iter("testcase")
    found = [(case.get("classname").split(".")[0], case.get("name"), case.find("failure")) for case in cases]
    return {folder: (int(name.split()[1]), failure.text) for folder, name, failure in found if failure is not None}


def test_one_changed_character_is_noticed(tmp_path):
    changed = {}
    for stem in NOTEBOOKS:
        notebook = nbformat.read(ROOT / "notebooks" / f"{stem}.ipynb", 4)
        number, output = next(
            (number, output)
            for number, cell in enumerate(notebook.cells)
            if cell.cell_type == "code" and "nbval-ignore-output" not in cell.metadata.get("tags", [])
            for output in cell.outputs
            if output.output_type == "stream" and any(c.isdigit() for c in output.text)
        )
        place = max(i for i, c in enumerate(output.text) if c.isdigit())
        output.text = output.text[:place] + str((int(output.text[place]) + 1) % 10) + output.text[place + 1 :]
        notebook.cells = notebook.cells[: number + 1]
        changed[stem] = sum(cell.cell_type == "code" for cell in notebook.cells) - 1
        (tmp_path / stem).mkdir()
        (tmp_path / stem / "posenc_lib").symlink_to(ROOT / "posenc_lib")
        (tmp_path / stem / "data").symlink_to(ROOT / "notebooks" / "data")
        nbformat.write(notebook, tmp_path / stem / f"{stem}.ipynb")

    found = first_failures(tmp_path)
    assert {stem: number for stem, (number, _) in found.items()} == changed
    for _, text in found.values():
        assert "Cell outputs differ" in text


# What ends a module of the copy, so that it shows nothing: pictures take most of the time.
NOTHING = "def {0}(*values, **options):\n    __import__('matplotlib.pyplot').pyplot.close('all')\n"
SHOWN = {"view/__init__.py": ("Explorer", "pictogram", "show"), "view/markdown.py": ("write",)}
ONLY_DRAWN = '"bhid,bijd->bhij", k, a', "steps.floor()", "(long - short)"  # changes that no printed number tells
LEFT_OUT = {  # what stands in cells that train for a minute, or read what they trained
    "18_in_use": ("train(", "verdict_of("),
    "21_near_and_far": ("fitted(", "CASES", "mended"),
    "22_how_far": ("remake(", "AGAIN", "MODELS"),
}


@pytest.mark.parametrize("part", range(4))  # for several workers
def test_one_changed_sign_is_noticed(tmp_path, part):
    """By what is printed; but for three changes pictures are neither drawn nor compared."""
    changed = {}
    for number, (stem, module, right, wrong) in enumerate(MUTATIONS[part::4]):
        folder = tmp_path / f"{number}"
        no_stale_bytecode = shutil.ignore_patterns(f"{Path(module).stem}.*.pyc")
        shutil.copytree(ROOT / "posenc_lib", folder / "posenc_lib", ignore=no_stale_bytecode)
        notebook = nbformat.read(ROOT / "notebooks" / f"{stem}.ipynb", 4)
        words = LEFT_OUT.get(stem, ())
        notebook.cells = [cell for cell in notebook.cells if not any(word in cell.source for word in words)]
        if wrong not in ONLY_DRAWN:
            for name, shown in SHOWN.items():
                with (folder / "posenc_lib" / name).open("a") as source:
                    source.writelines(NOTHING.format(one) for one in shown)
            for cell in notebook.cells:
                if cell.cell_type == "code":
                    kinds = [set(output.get("data", ())) for output in cell.outputs]
                    cell.outputs = [
                        output
                        for output, kind in zip(cell.outputs, kinds, strict=True)
                        if not kind & {"image/png", "text/markdown"}
                    ]
        nbformat.write(notebook, folder / f"{stem}.ipynb")
        (folder / "data").symlink_to(ROOT / "notebooks" / "data")
        path = folder / "posenc_lib" / "schemes" / module
        source = path.read_text()
        assert source.count(right) == 1
        path.write_text(source.replace(right, wrong))
        changed[folder.name] = f"{stem}: {wrong}"

    found = first_failures(tmp_path)
    assert {change for folder, change in changed.items() if folder not in found} == set()
    for _, text in found.values():
        assert "Cell outputs differ" in text
