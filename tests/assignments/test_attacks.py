"""A class of forty in which every known attack on the grader, and every accident, stands once among good work."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

import grade
from submission import identity

pytestmark = pytest.mark.xdist_group("attacks")  # graded once

NAME = "02_sinusoidal"
LIMIT = 100  # seconds for a submission
LATIN_1 = os.fsdecode("M\xfcller".encode("latin-1"))
DECOMPOSED = "Mu\u0308ller"  # as macOS writes it
FORMULA = '=HYPERLINK("example.org","Anna")'
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
ANOTHER = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="

SWALLOWS = """
import time
while True:
    try:
        time.sleep(1)
    except BaseException:
        pass
"""
THIEF = """
import glob, os, socket
found = [path for root in ("{root}", "{repository}") for path in glob.glob(root + "/**", recursive=True)]
print("FOUND", [path for path in found if "posenc_lib" not in path and ".venv" not in path and os.path.isfile(path)])
for path in ("{root}/gradebook.db", "{root}/grades.jsonl", "{root}/submitted/x", "{library}/stolen.py"):
    try:
        open(path, "w")
        print("WROTE", path)
    except OSError:
        pass
try:
    socket.create_connection(("127.0.0.1", {port}), 2)
    print("CONNECTED")
except OSError:
    pass
import inspect
def sum_factor(k, dim, base):
    print("FRAMES", [frame.code_context for frame in inspect.stack()])
    return None
"""
FORGER = """
import builtins, sys
import torch
import posenc_lib.exercises.graded, posenc_lib.exercises.check
posenc_lib.exercises.graded.require = lambda *anything: None
posenc_lib.exercises.check.Check.verdict = lambda *anything: posenc_lib.exercises.check.Verdict(True, "")
torch.allclose = torch.equal = lambda *anything, **named: True
sys.modules["posenc_wire"].call = lambda *anything: '{"value": true}'
def encode_halves(positions, dim, base):
    class Anything(torch.Tensor):
        def __eq__(self, other):
            return True
    return Anything()
"""
# Says of an answer without a byte that it is a tensor: what lies in the grader's memory would take its place.
HEAP = """
import sys
forged = '{"value": {"tensor": "", "dtype": "int64", "shape": [%d]}}'
sys.modules["posenc_wire"].call = lambda *anything: forged
def encode_halves(positions, dim, base):
    return None
"""
KERNEL = """
from IPython import get_ipython
kernel = get_ipython().kernel
session, out = kernel.session, kernel.iopub_socket
"""
SAYS = 'message = session.msg("stream", {"name": "stdout", "text": text}, parent=kernel.get_parent())\n'
FLOODS_IOPUB = KERNEL + f"text = 'x' * 60 * 2**20\nfor _ in range(100):\n    {SAYS}    session.send(out, message)\n"
ONE_ENDLESS_MESSAGE = f"""{KERNEL}
text = 'x'
{SAYS}
out.send_multipart([*session.serialize(message), *[b'x' * 15 * 2**20] * 300], copy=False)
"""
GARBAGE = KERNEL + "out.send_multipart([b'stream', b'<IDS|MSG>', b'no signature', b'{', b'{', b'{', b'{'])\n"
REPLAYS = KERNEL + f"text = 'again'\n{SAYS}parts = session.serialize(message)\n" + "out.send_multipart(parts)\n" * 2
ODD_OUTPUT = KERNEL + (
    "for content in ({'name': 3, 'text': ['x']}, {'data': 'x'}, {}):\n"
    "    session.send(out, session.msg('display_data', content, parent=kernel.get_parent()))\n"
)
FILLS = """
import os
for folder in ("/", "/dev", "/dev/shm", "/tmp", "/var/tmp", "/scratch"):
    written = 0
    try:
        for number in range(40):
            with open(f"{folder}/{number}", "wb") as file:
                file.write(bytes(20 * 2**20))
                written += 20
    except OSError:
        pass
    print("WROTE", written)
"""
NAMESPACES = """
import subprocess, sys
program = "import ctypes; print('NAMESPACE', ctypes.CDLL(None).unshare(0x10000000))"  # a process with threads may not
print(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout)
"""
IMPORTS_ANSWERS = """
import importlib
for name in ("context_extension", "rope", "sinusoidal", "check"):
    try:
        importlib.import_module("posenc_lib.exercises." + name)
        print("IMPORTED", name)
    except ImportError:
        pass
"""
PICTURES = f"""![p](attachment:p.png) and ![q](data:image/png;base64,{ANOTHER}), H<sub>2</sub>O

<details><summary>more</summary>

1. one
2. two

</details> $\\theta_t$"""
SCRIPTS = "<script>alert(1)</script><img src=x onerror=alert(2)>[a](javascript:alert(3))"


def a_class(built, port: int) -> dict:
    """Submissions by student: a notebook, and the tests that it fails; or what is done to its file, and the reason."""
    tests = [name for name in built.points if name not in built.manual]
    answers = {identity(cell): cell.source for cell in built.master.cells}
    solutions = [identity(cell) for cell in built.released.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    numbers = iter(range(1, 100))

    def good(*blank, **code):
        return built.answered(*blank, **{"student": f"STUDENT = {next(numbers)}"} | code)

    def before(cell, attack):
        return good(**{cell: f"{attack}\n{answers[cell]}"})

    def said(**code):
        return good(**code), [f"{cell}-test" for cell in code]

    second_half = solutions[len(solutions) // 2 :]
    repository = grade.HERE.parents[1]
    thief = THIEF.format(root=built.root, repository=repository, library=repository / "posenc_lib", port=port)

    tampered, shortened = built.answered("encode_halves"), built.answered("encode_halves")
    for cell in tampered.cells:
        if identity(cell) == "encode_halves-test":
            cell.source, cell.metadata.nbgrader["points"] = "100", 1000
    shortened.cells = [cell for cell in shortened.cells if identity(cell) != "encode_halves-test"]

    pictured = good(**{"explain-sines": PICTURES})
    text = next(cell for cell in pictured.cells if identity(cell) == "explain-sines")
    text.attachments = {"p.png": {"image/png": PIXEL}, "lies.png": {"image/png": "not a picture"}}

    surrogate = good()
    surrogate.cells.insert(5, new_code_cell("print('SURROGATE')"))

    below = good("explain-sines")
    place = [identity(cell) for cell in below.cells].index("explain-sines")
    below.cells.insert(place + 1, new_markdown_cell("Yes, because the sum needs only itself."))

    renumbered = good()
    renumbered.cells.append(new_code_cell("STUDENT = 9999"))

    return {
        "perfect": (good(student="STUDENT = 501"), []),
        "blank": (built.released, tests),
        "half": (good(*second_half), [test for test in tests if test.removesuffix("-test") in second_half]),
        "s0042": (good(student="STUDENT = 's0042'"), []),
        "friend": (good(student="STUDENT = 501"), []),
        "renumbered": (renumbered, []),
        "O'Brien": (good(), []),
        "Li, Wei": (good(), []),
        DECOMPOSED: (good(), []),
        LATIN_1: (good(), []),
        FORMULA: (good(), []),
        "[a-z]*": (good(), []),
        "tampers": (tampered, ["encode_halves-test"]),
        "deletes-test": (shortened, ["encode_halves-test"]),
        "wrong-sign": said(
            reader="def reader(offset, weights, dim, base):\n"
            "    return weights.repeat_interleave(2)[:, None] * shift_matrix(offset, dim, base)"
        ),
        "syntax-error": said(encode_halves="def encode_halves(positions, dim, base:\n    pass"),
        "endless-function": said(
            encode_halves="def encode_halves(positions, dim, base):\n    while True:\n        pass"
        ),
        "swallows-interrupt": said(first_negative=SWALLOWS),
        "exits": said(first_negative="import os\nos._exit(0)"),
        "eight-gigabytes": said(first_negative="block = torch.empty(8 * 2**30, dtype=torch.uint8)\nfirst_negative = 1"),
        # What they put in place of the calls answers every test of a function.
        "forger": (good(encode_halves=FORGER), None),
        "heap": (good(encode_halves=HEAP % 187), None),
        "large-heap": (good(encode_halves=HEAP % 2**30), None),
        "thief": said(sum_factor=thief),
        "prints-a-flood": (before("first_negative", "for _ in range(100):\n    print('x' * 2**20)"), []),
        "floods-iopub": (before("first_negative", FLOODS_IOPUB), None),
        "garbage": said(first_negative=f"{GARBAGE}{answers['first_negative']}"),
        "replays": said(first_negative=f"{REPLAYS}{answers['first_negative']}"),
        "odd-output": said(first_negative=f"{ODD_OUTPUT}{answers['first_negative']}"),
        "long-error": said(first_negative="raise ValueError('x' * 30 * 2**20)"),
        "fills-disks": (before("first_negative", FILLS), []),
        "namespaces": (before("first_negative", NAMESPACES), []),
        "imports-answers": (before("first_negative", IMPORTS_ANSWERS), []),
        "markers": (before("first_negative", "### BEGIN HIDDEN TESTS\n### BEGIN SOLUTION"), []),
        "surrogate": (surrogate, []),
        "pictures": (pictured, []),
        "scripts": (good(**{"explain-sines": SCRIPTS}), []),
        "below": (below, []),
        "one-endless-message": (before("first_negative", ONE_ENDLESS_MESSAGE), []),
        "sparse": (6 * 2**30, "the notebook has more than 50 MB"),
    }


def lay_out(built, handed_in: dict) -> None:
    """Write the class's files."""
    for student, (notebook, _) in handed_in.items():
        if isinstance(notebook, int):
            os.truncate(built.hand_in(student, built.released), notebook)
            continue
        path = built.hand_in(student, notebook)
        if student == "surrogate":
            path.write_text(path.read_text().replace("SURROGATE", "\\ud800"))


def watched(process: subprocess.Popen) -> int:
    """Bytes that the grader's own processes held at most together, without those of the submissions."""
    most = 0
    while process.poll() is None:
        total, waiting = 0, [psutil.Process(process.pid)]
        for one in waiting:
            with contextlib.suppress(psutil.Error):
                if one.name() != "bwrap":
                    waiting += one.children()
                    total += one.memory_full_info().pss
        most = max(most, total)
        time.sleep(0.5)
    return most


@pytest.fixture(scope="module")
def graded(confined, course_in, tmp_path_factory):
    """The class of forty, graded once by the command, in a folder with a space and an umlaut in its path."""
    root = tmp_path_factory.mktemp("class") / "Kurs \N{LATIN CAPITAL LETTER U WITH DIAERESIS} 1"
    built = course_in(root, NAME)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        handed_in = a_class(built, server.getsockname()[1])
        assert len(handed_in) == 40
        lay_out(built, handed_in)
        temporary = tmp_path_factory.mktemp("temporary")
        started, environment = time.monotonic(), os.environ | {"TMPDIR": str(temporary)}
        command = [sys.executable, str(grade.HERE / "grade.py"), str(root), "--seconds=10", f"--limit={LIMIT}"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        memory = watched(process)
        print(f"40 submissions in {time.monotonic() - started:.0f} s; memory of the grader {memory / 2**30:.2f} GB")
        assert process.returncode == 0, process.stdout.read().decode()
    return SimpleNamespace(course=built, handed_in=handed_in, rows=built.rows(), memory=memory, temporary=temporary)


def lost(built, fails: list[str]) -> float:
    return sum(points for name, points in built.points.items() if name not in built.manual and name not in fails)


def shown(student: str) -> str:
    return {LATIN_1: "Müller", FORMULA: f"'{FORMULA}"}.get(student, student)


def test_every_submission_has_a_line_and_a_score_or_a_reason(graded):
    assert len(graded.rows) == 40
    expected = {shown(s): reason if isinstance(reason, str) else "" for s, (_, reason) in graded.handed_in.items()}
    assert set(graded.rows) == set(expected)
    wrong = {s: row["reason"] for s, row in graded.rows.items() if not row["reason"].startswith(expected[s])}
    assert wrong == {}
    assert all(bool(row["score"]) != bool(row["reason"]) for row in graded.rows.values())


def test_every_submission_gets_the_score_that_it_earned(graded):
    earned = {shown(s): lost(graded.course, f) for s, (_, f) in graded.handed_in.items() if isinstance(f, list)}
    assert {student: float(graded.rows[student]["score"]) for student in earned} == earned


def test_what_answers_for_the_functions_of_a_submission_earns_nothing_with_them(graded):
    for student in ("forger", "heap", "large-heap"):
        assert float(graded.rows[student]["score"]) < 30, student


def test_the_grader_needs_little_memory_and_leaves_nothing_behind(graded):
    assert graded.memory < 1.5 * 2**30
    assert list(graded.temporary.iterdir()) == []


def test_no_memory_of_the_grader_is_shown(graded):
    for student in ("heap", "large-heap"):
        assert "bytes are no tensor" in graded.course.feedback(student)
        assert len(graded.course.feedback(student)) < 2**20


def test_no_feedback_is_long(graded):
    for student in ("prints-a-flood", "long-error", "floods-iopub"):
        assert len(graded.course.feedback(student)) < 2**20, student


def test_nothing_of_the_machine_is_seen_or_written(graded):
    outputs = graded.course.graded("thief")["sum_factor"]
    assert "FOUND []" in outputs and "WROTE" not in outputs and "CONNECTED" not in outputs
    written = [int(n) for n in re.findall(r"WROTE (\d+)", graded.course.graded("fills-disks")["first_negative"])]
    assert (
        written[:2] == [0, 0] and sum(written) < 700
    )  # two folders of 256 MB, one of 64, and the first is asked twice
    assert "NAMESPACE -1" in graded.course.graded("namespaces")["first_negative"]
    assert re.findall("IMPORTED (.*)", graded.course.graded("imports-answers")["first_negative"]) == ["check"]


def test_no_hidden_test_is_in_any_feedback(graded):
    secret = "factor_reference"  # a name of a hidden test
    assert any(secret in cell.source for cell in graded.course.master.cells)
    pages = list((graded.course.root / "feedback").rglob("*.html"))
    assert len(pages) == 39
    assert [page for page in pages if secret in page.read_text()] == []


def test_what_was_noticed_is_said(graded):
    notes = {student: row["notes"] for student, row in graded.rows.items()}
    for student, words in {
        "endless-function": "stopped after 10 seconds",
        "swallows-interrupt": "did not stop when interrupted",
        "exits": "the process ended",
        "garbage": "messages that cannot be read",
        "replays": "messages that cannot be read",
        "odd-output": "messages that cannot be read",
        "tampers": "cell encode_halves-test was changed",
        "deletes-test": "cell encode_halves-test was deleted",
        "friend": "same student number as 1 more: perfect",
        "perfect": "same student number as 1 more: friend",
        "renumbered": "the student number was changed later, to 9999",
        "below": "the answer of explain-sines stood in another cell",
        "[a-z]*": "called student-",
    }.items():
        assert words in notes[student], student
    assert graded.rows["renumbered"]["number"] != "9999"
    assert graded.rows["s0042"]["number"] == "s0042"
    assert notes["O'Brien"] == notes["Li, Wei"] == ""
    assert notes[DECOMPOSED] == "another folder has the same name, written differently"


def test_a_written_answer_in_another_cell_waits_for_a_reader(graded):
    waiting = sum(graded.course.points[name] for name in graded.course.manual)
    assert float(graded.rows["below"]["waiting"]) == float(graded.rows["perfect"]["waiting"]) == waiting
    assert float(graded.rows["blank"]["waiting"]) == 0


def test_pictures_lists_and_small_html_arrive(graded):
    page = graded.course.feedback("pictures")
    for picture in (PIXEL, ANOTHER):
        assert f"data:image/png;base64,{picture}" in page
    for part in ("H<sub>2</sub>O", "<summary>more</summary>", "<li>two</li>", "<math"):
        assert part in page, part
    page = graded.course.feedback("scripts")
    assert "javascript:alert(3)" in page  # as text
    for part in ("alert(1)", "onerror", 'href="javascript'):
        assert part not in page, part
