"""The masters are right for every student, and their tests, texts and tables agree.

A master runs here without the sandbox, by the rules of the grader (``submission.Tests``): the solutions fill one
namespace; the locked cells run in another, which looks up what the first one holds.
"""

import ast
import builtins
import contextlib
import functools
import io
import json
import re
from collections import Counter
from pathlib import Path

import nbformat
import pytest
import torch

import release
import submission
import wire
from submission import identity, names

FOLDER = Path(release.HERE)
MASTERS = sorted(path.stem for path in (FOLDER / "source").glob("*/*.ipynb"))
NUMBERS = range(1, 10_001)
CLASSES = [range(first, first + 200) for first in (1, 4711, 123_456)]
TRAINING = "(training)"


class Plain:
    """What ``Tests`` asks of a kernel, from a dictionary, through the wire; results of functions may be disguised."""

    def __init__(self, namespace, disguise=lambda result: result):
        self.namespace, self.disguise, self.notes = namespace, disguise, []

    def look_up(self, name):
        value = self.namespace[name]
        if not callable(value):
            return through_the_wire(value)
        return lambda *given, **named: through_the_wire(self.disguise(value(*given, **named)))


def through_the_wire(value):
    return wire.unpack(json.loads(wire.answer(value))["value"])


class Question:
    """A graded code cell, with the names that the cells before it have made."""

    def __init__(self, cell, parameters, changing, submitted, tests):
        self.name, self.source, self.parameters = identity(cell), cell.source, parameters
        self.changing = list(changing)  # the cells before it that depend on the student's number
        self.submitted, self.namespace, self.made = dict(submitted), dict(tests.namespace), set(tests.made)

    @property
    def asked(self):
        """The names that the test looks up in a submission."""
        used, made = names(self.source)
        return used - made - self.made - vars(builtins).keys()

    @property
    def visible(self):
        return release.SECRET.sub("", self.source)

    @property
    def hidden(self):
        return release.SECRET.search(self.source)[2]

    def run(self, *sources, **how):
        """The error of each source in place of the test; empty where there is none."""
        return self.run_and_look(*sources, **how)[0]

    def answers(self, number):
        """What the master answers for a number, in words; functions count as their names."""
        _, submitted = self.run_and_look(number=number)
        return str({name: getattr(submitted[name], "__name__", submitted[name]) for name in sorted(self.asked)})

    def run_and_look(self, *sources, number=None, instead="", **how):
        submitted = dict(self.submitted)
        tests = submission.Tests(Plain(submitted, **how))
        tests.namespace, tests.made = dict(self.namespace), set(self.made)
        if number is not None:
            submitted["STUDENT"] = number
            for cell in self.changing:
                execute(cell, submitted, tests)
        exec(instead, submitted)
        return [error(tests, source) for source in sources], submitted


def execute(cell, submitted, tests):
    """Run a cell without points where the grader runs it."""
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(cell.source, identity(cell), "exec"), submitted)
    if cell.metadata.nbgrader["locked"]:
        assert not error(tests, cell.source)


def error(tests, source):
    """The error that a locked cell ends with, its kind first."""
    return "".join(f"{o.ename}: {o.evalue}" for o in tests.run(source) if o.output_type == "error")


class Reach:
    """On which parameters of ``mine`` the names of a notebook depend, statement by statement."""

    def __init__(self):
        self.of = {}  # name -> parameters

    def follow(self, source, every):
        """The parameters that anything in a cell depends on; ``every`` stands for a use of ``mine`` as a whole."""
        reached = set()
        for statement in ast.parse(source).body * 2:  # twice: a function may use what is defined below it
            nodes = list(ast.walk(statement))
            words = Counter(getattr(node, "id", None) or getattr(node, "attr", None) for node in nodes)
            picked = [n.attr for n in nodes if isinstance(n, ast.Attribute) and getattr(n.value, "id", "") == "mine"]
            used, made = names(ast.unparse(statement))
            counted = names(f"{ast.unparse(statement.target)} = 0")[1] if isinstance(statement, ast.For) else set()
            found = set(picked).union(*(self.of.get(name, ()) for name in used - counted - {"mine"}))
            if words["STUDENT"] or words["mine"] > len(picked):
                found |= every
            if words["train"]:
                found.add(TRAINING)
            self.of |= dict.fromkeys(made, found)
            reached |= found
        return reached


class Master:
    """A master that was run once, and its questions. Cells that train, or use what was trained, are left out."""

    def __init__(self, name):
        self.name = name
        self.notebook = nbformat.read(FOLDER / "source" / name / f"{name}.ipynb", as_version=4)
        submitted, self.questions, changing, reach = {"__name__": "__main__"}, [], [], Reach()
        tests = submission.Tests(Plain(submitted))
        for cell in self.notebook.cells:
            label = cell.metadata.get("nbgrader")
            if not label or cell.cell_type != "code":
                continue
            parameters = reach.follow(cell.source, set(vars(submitted["mine"])) if "mine" in submitted else set())
            if TRAINING in parameters:
                continue
            if label["grade"]:
                self.questions.append(Question(cell, parameters, changing, submitted, tests))
                error(tests, cell.source)  # later tests may use what it defines
            else:
                execute(cell, submitted, tests)
                if parameters or "STUDENT" in names(cell.source)[0]:
                    changing.append(cell)
        code = compile(changing[0].source, "mine", "exec")

        def mine(number):
            """The parameters of a student."""
            namespace = {"own": submitted["own"], "STUDENT": number}
            with contextlib.redirect_stdout(io.StringIO()):
                exec(code, namespace)
            return vars(namespace["mine"])

        self.mine = functools.cache(mine)


@functools.cache
def read(name):
    return Master(name)


@pytest.fixture(params=MASTERS)
def master(request):
    return read(request.param)


def text_of(notebook):
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def test_what_depends_on_a_parameter_is_followed_through_names_and_functions():
    reach = Reach()
    assert reach.follow("mine = own(STUDENT, a=(1, 2), b=(3, 4))", {"a", "b"}) == {"a", "b"}
    assert reach.follow("x = mine.a\nz = 1\ndef f():\n    return g()\ndef g():\n    return x", {"a", "b"}) == {"a"}
    assert reach.follow("f()", {"a", "b"}) == {"a"}
    assert reach.follow("print(z)", {"a", "b"}) == set()
    assert reach.follow("for x in (1, 2):\n    print(x)", {"a", "b"}) == set()
    assert reach.follow("print(f(), mine.b)", {"a", "b"}) == {"a", "b"}
    assert reach.follow("print(mine)", {"a", "b"}) == {"a", "b"}
    assert reach.follow("def h():\n    lab.train(z)", {"a", "b"}) == {TRAINING}
    assert reach.follow("x = h(), f()", {"a", "b"}) == {TRAINING, "a"}


def test_a_test_takes_its_numbers_from_mine(master):
    """The cell ``mine = own(...)`` is run by the grader too."""
    graded = [cell for cell in master.notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    assert not [identity(cell) for cell in graded if re.search(r"\bSTUDENT\b|\bown\(", cell.source)]


def test_every_number_up_to_10000_earns_every_automatic_point(master):
    """A test is run once for each value of the parameters that it depends on, which are those that its cells name."""
    for question in master.questions:
        values = {tuple(map(str, (master.mine(n)[p] for p in question.parameters))): n for n in reversed(NUMBERS)}
        for number in values.values():
            assert question.run(question.source, number=number) == [""], f"{question.name}, STUDENT = {number}"


def test_no_two_of_200_consecutive_numbers_share_all_parameters(master):
    for numbers in CLASSES:
        assert len({str(master.mine(number)) for number in numbers}) == 200


def test_no_answers_are_right_for_more_than_10_of_200_consecutive_numbers(master):
    for question in master.questions:
        if question.parameters:
            for numbers in CLASSES:
                found = Counter(question.answers(number) for number in numbers)
                assert max(found.values()) <= 10, (question.name, numbers, found.most_common(1))


def test_no_answer_uses_another_answer_that_has_points_of_its_own(master):
    """A mistake costs its points once."""
    asked = {name for question in master.questions for name in question.asked}
    for cell in master.notebook.cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution"):
            used, made = names(cell.source)
            assert not (used - made) & asked, identity(cell)


def changed(result, tensor=lambda x: x, number=lambda x: x, word=lambda x: x):
    """A result with its tensors, numbers and words replaced, also in lists, tuples and dictionaries."""
    again = functools.partial(changed, tensor=tensor, number=number, word=word)
    if isinstance(result, torch.Tensor):
        return tensor(result)
    if isinstance(result, str):
        return word(result)
    if isinstance(result, (int, float)):
        return number(result)
    if isinstance(result, (list, tuple)):
        return type(result)(map(again, result))
    return {key: again(value) for key, value in result.items()} if isinstance(result, dict) else result


def test_the_visible_part_refuses_float32_where_float64_is_asked(master):
    for question in master.questions:
        narrowed = []

        def narrow(x, narrowed=narrowed):
            if x.dtype != torch.float64:
                return x
            narrowed.append(x)
            return x.float()

        question.run(question.source, disguise=functools.partial(changed, tensor=narrow))
        if narrowed:
            [error] = question.run(question.visible, disguise=functools.partial(changed, tensor=narrow))
            assert re.search("float32|float64", error), (question.name, error)


WRONG = functools.partial(changed, tensor=lambda x: x + 1000.0, number=lambda x: x + 1000.0, word=lambda x: f"not {x}")


def test_both_parts_refuse_a_wrong_result_and_none_of_their_mistakes_raises(master):
    """The hidden part is asked after the visible one has failed, and has to find there what it uses."""
    for question in master.questions:
        if any(callable(question.submitted[name]) for name in question.asked):
            for error in question.run(question.visible, question.hidden, disguise=WRONG):
                assert error.startswith("AssertionError: "), (question.name, error)


DISGUISES = {
    "transposed": {"tensor": lambda x: x.mT if x.dim() > 1 else x},
    "flattened": {"tensor": torch.flatten},
    "one axis more": {"tensor": lambda x: x[None]},
    "lists": {"tensor": torch.Tensor.tolist},
    "arrays": {"tensor": torch.Tensor.numpy},
    "tensors": {"number": lambda x: x if isinstance(x, bool) else torch.tensor(x)},
    "complex": {"tensor": lambda x: x + 0j},
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_the_hidden_part_refuses_no_form_of_a_result_that_the_visible_one_takes(master, disguise):
    form = functools.partial(changed, **DISGUISES[disguise])
    for question in master.questions:
        [visible] = question.run(question.visible, disguise=form)
        [whole] = question.run(question.source, disguise=form)
        assert visible or not whole, (question.name, disguise, whole)


ANSWERS = [
    (path.stem, *re.fullmatch(r'([\w-]+)(?: names "([^"]*)")?\n(.*)', block, re.DOTALL).groups())
    for path in sorted((Path(__file__).parent / "answers").glob("*.py"))
    for block in re.split(r"^# %% ", path.read_text(), flags=re.MULTILINE)[1:]
]


@pytest.mark.parametrize(("name", "test", "mistake", "answer"), ANSWERS, ids=[f"{a[0]}-{a[1]}" for a in ANSWERS])
def test_other_right_answers_earn_the_points_and_likely_wrong_ones_are_named(name, test, mistake, answer):
    [question] = [question for question in read(name).questions if question.name == test]
    [error] = question.run(question.source, instead=answer)
    assert mistake in error if mistake else not error


HEADING = re.compile(r"^#+ (.*?) \((\d+) points, (\d+) minutes\)$", re.MULTILINE)
README = (FOLDER / "README.md").read_text()


def section(name):
    """What the README says of an assignment."""
    number = int(name[:2])
    return re.search(rf"^### Assignment {number}: .*?(?=^##)", README, re.MULTILINE | re.DOTALL)[0]


def minutes(text):
    return [int(found) for found in re.findall(r"\*\*Time:\*\* (\d+) minutes", text)]


def reading(text):
    """The notebooks to be read, and those that help."""
    needed, _, more = re.search(r"\*\*Read before:\*\* (.*?)\.(\s|$)", text)[1].partition(";")
    return set(re.findall(r"\b\d\d\b", needed)), set(re.findall(r"\b\d\d\b", more))


def test_points_and_minutes_of_the_questions_add_up(master):
    found, left = [], 0
    for cell in master.notebook.cells:
        if heading := HEADING.search(cell.source if cell.cell_type == "markdown" else ""):
            assert left == 0, f"points before {heading[1]}"
            left = int(heading[2])
            found.append(heading)
        left -= cell.metadata.get("nbgrader", {}).get("points", 0)
    assert left == 0
    text = text_of(master.notebook)
    assert sum(int(heading[2]) for heading in found) == 100
    assert minutes(text) == minutes(section(master.name)) == [sum(int(heading[3]) for heading in found)]


def test_the_readme_has_a_row_for_each_graded_cell_and_no_other(master):
    cells = {
        (identity(cell), label["points"])
        for cell in master.notebook.cells
        if (label := cell.metadata.get("nbgrader", {})).get("grade")
    }
    rows = re.findall(r"^(?:\| )?`([\w-]+)`(?:, by hand,| \|) (\d+) ", section(master.name), re.MULTILINE)
    assert len(rows) == len(cells) and {(name, int(points)) for name, points in rows} == cells


def test_points_of_a_rubric_add_up(master):
    for rubric in re.split(r"^(?=`[\w-]+`, by hand)", section(master.name), flags=re.MULTILINE)[1:]:
        points = int(re.search(r"by hand, (\d+) points", rubric)[1])
        assert sum(int(n) for n in re.findall(r"^- (\d+) for", rubric, re.MULTILINE)) == points, rubric


def test_what_to_read_is_the_same_in_the_text_and_the_readme_and_has_been_read_by_then(master):
    needed, more = reading(text_of(master.notebook))
    assert (needed, more) == reading(section(master.name))
    weeks = [
        re.search(rf"^\| {week} \| (.*?) \|", README, re.MULTILINE)[1] for week in range(1, int(master.name[:2]) + 1)
    ]
    read_by_then = {number for week in weeks for number in re.findall(r"\[(\d\d)\]", week.partition(";")[0])}
    assert needed and needed <= read_by_then


def test_the_readme_says_how_long_assignments_take():
    times = [minutes(section(name))[0] for name in MASTERS]
    assert f"Each assignment takes {min(times)} to {max(times)} minutes" in " ".join(README.split())
