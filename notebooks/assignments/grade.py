"""Grade every submission of a class: make grade, or

    python grade.py [COURSE] [--assignment NAME] [--student NAME] [--jobs 2] [--seconds 30] [--memory 4096]
                    [--limit 600] [--again]

reads COURSE/submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb and writes scores to COURSE/gradebook.db, HTML to
COURSE/feedback/STUDENT/ASSIGNMENT/ and a line per submission to COURSE/grades.csv. What was graded before is not graded
again unless the file or the assignment changed: a run that was broken off goes on where it stopped.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import multiprocessing
import multiprocessing.util
import os
import resource
import shutil
import signal
import stat
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path

import nbformat
import torch
from nbgrader.api import MissingEntry
from nbgrader.apps import NbGraderAPI
from nbgrader.utils import parse_utc
from tqdm import tqdm

from course import HERE, LARGEST_NOTEBOOK, called, gradebook, identifier, prepare, replace, seen_by_nbgrader
from roster import key, shown
from sandbox import bubblewrap
from submission import identity, with_pictures
from table import write_table

SERVER = multiprocessing.get_context("forkserver")  # has read the libraries once, for all submissions
SERVER.set_forkserver_preload(["nbgrader.apps", "submission", "feedback"])
MEMORY_OF_A_GRADER = 600 * 2**20  # bytes beyond what it starts with


def submissions(course: Path, assignment: str | None = None, students: list[str] | None = None) -> list[dict]:
    """The submissions below ``course``: whose, of what, and a digest or a reason why it cannot be graded."""
    found, wanted = [], {key(student) for student in students or ()}
    for student in folders(course / "submitted"):
        if not wanted or key(student) in wanted:
            for name in folders(course / "submitted" / student):
                if assignment in (None, name):
                    found.append({"student": student, "assignment": name} | examined(course, student, name))
    return found


def folders(path: Path) -> list[str]:
    """What lies in a folder and is one, or a link; without what is hidden or left by macOS."""
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        names = [entry.name for entry in entries if entry.is_symlink() or entry.is_dir()]
        return sorted(name for name in names if not name.startswith(".") and name != "__MACOSX")
    return []


def examined(course: Path, student: str, assignment: str) -> dict:
    """A digest of the file and of the assignment as it is now; or a reason, and nothing was read."""

    def refused(reason: str) -> dict:
        return {"digest": "", "reason": reason}

    path = course / "submitted" / student / assignment / f"{assignment}.ipynb"
    released = course / "release" / assignment / f"{assignment}.ipynb"
    if not released.is_file():
        return refused(f"there is no released assignment {assignment}")
    try:
        kinds = [os.lstat(part).st_mode for part in (path.parent.parent, path.parent, path)]
        if any(map(stat.S_ISLNK, kinds)):
            return refused("a link instead of a file")
        if not stat.S_ISREG(kinds[-1]):
            return refused("not a file")
        if path.stat().st_size > LARGEST_NOTEBOOK:
            return refused(f"the notebook has more than {LARGEST_NOTEBOOK // 2**20} MB")
        digest = hashlib.sha256(path.read_bytes())
    except FileNotFoundError:
        return refused(f"there is no {assignment}.ipynb")
    except OSError as error:
        return refused(f"the file cannot be read: {error.strerror}")
    timestamp = path.with_name("timestamp.txt")
    for other in (timestamp, released, course / "source" / assignment / f"{assignment}.ipynb"):
        digest.update(other.read_bytes() if other.is_file() and not other.is_symlink() else b"")
    return {"digest": digest.hexdigest(), "reason": ""}


def grade_one(course: Path, student: str, assignment: str, seconds: float, memory: int) -> dict:
    """Grade one submission in this process: why there is no score, notes, number.

    Raises:
        RuntimeError: if nbgrader fails.
    """
    path = course / "submitted" / student / assignment / f"{assignment}.ipynb"
    try:
        handed_in = nbformat.read(path, as_version=4)
        nbformat.validate(handed_in)
    except Exception as error:
        return {"reason": f"the file is not a notebook: {type(error).__name__}"}

    known, notes = identifier(student), []
    with seen_by_nbgrader(course) as (root, config):
        folder = root / "submitted" / known / assignment
        folder.mkdir(parents=True)
        handed_in = with_pictures(handed_in, path.parent)
        (folder / path.name).write_text(json.dumps(handed_in))  # and nothing else that was handed in
        if (time_of := timestamp(path.parent)) is None:
            notes.append("timestamp.txt holds no time")
        elif time_of:
            (folder / "timestamp.txt").write_text(time_of)
        config.RunAndTest.seconds, config.RunAndTest.memory = seconds, memory
        read_by_hand = hand_graded(course, known, assignment)
        api = NbGraderAPI(config=config)
        succeeded(api.autograde(assignment, known))
        graded = nbformat.read(root / "autograded" / known / assignment / path.name, as_version=4)
        settle(course, known, student, assignment, graded, read_by_hand)
        succeeded(api.generate_feedback(assignment, known))
        for kind in ("autograded", "feedback"):
            replace(course / kind / known / assignment, root / kind / known / assignment)
    if known != student:
        notes.append(f"called {known} in Formgrader and in feedback/")
    found = graded.metadata["grading"]
    return {"reason": "", "number": found["number"], "notes": notes + found["notes"]}


def succeeded(done: dict) -> None:
    """Go on if a step of nbgrader's succeeded.

    Raises:
        RuntimeError: if it did not, with what nbgrader said.
    """
    if not done["success"]:
        raise RuntimeError(done.get("log") or done.get("error"))


def timestamp(folder: Path) -> str | None:
    """When the submission in ``folder`` was handed in, in nbgrader's form; empty if unknown, None if it is no time."""
    path = folder / "timestamp.txt"
    if path.is_symlink() or not path.is_file():
        return ""
    try:
        text = path.read_text()[:100].strip()
        parse_utc(text)
    except (OSError, ValueError, OverflowError):
        return None
    return text


def hand_graded(course: Path, student: str, assignment: str) -> dict[str, str]:
    """The answers that somebody has read and given points for: the text that was read, by the name of the cell."""
    path = course / "autograded" / student / assignment / f"{assignment}.ipynb"
    if not path.is_file():
        return {}
    answers = {identity(cell): cell.source for cell in nbformat.read(path, as_version=4).cells}
    try:
        with gradebook(course) as book:
            grades = book.find_submission_notebook(assignment, assignment, student).grades
            read = [grade.name for grade in grades if grade.manual_score is not None and not grade.needs_manual_grade]
    except MissingEntry:
        return {}
    return {name: answers[name] for name in read if name in answers}


def settle(course: Path, known: str, student: str, assignment: str, graded, read_by_hand: dict[str, str]) -> None:
    """Write the student's name into the gradebook; an answer that was read and did not change waits for nobody."""
    with gradebook(course) as book:
        if known != student:
            book.update_or_create_student(known, last_name=called(student))
        answers = {identity(cell): cell.source for cell in graded.cells}
        for grade in book.find_submission_notebook(assignment, assignment, known).grades:
            if grade.name in read_by_hand and answers.get(grade.name) == read_by_hand[grade.name]:
                grade.needs_manual_grade = False
        book.db.commit()


def report(sender: Connection, grader: int, folder: str, *arguments) -> None:
    """Send what ``grade_one`` returns, or how it failed; its process ends when the process ``grader`` does.

    Args:
        sender: where to.
        grader: the process whose end is watched.
        folder: for everything temporary.
        arguments: of ``grade_one``.
    """
    os.setsid()
    tempfile.tempdir = folder

    def watch():
        with contextlib.suppress(ProcessLookupError):
            while True:  # the parent is the fork server, which waits for this process
                os.kill(grader, 0)
                time.sleep(0.5)
        shutil.rmtree(folder, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)  # what libraries say would break the progress bar
    torch.set_num_threads(1)  # as in the sandbox, so that both compute the same
    limit_memory()
    try:
        sender.send(grade_one(*arguments))
    except MemoryError:
        sender.send({"reason": "it sent more than the grader can hold"})
    except Exception:
        sender.send({"reason": "the grader failed, see grades.log", "fault": traceback.format_exc()})


def limit_memory() -> None:
    """Let this process take ``MEMORY_OF_A_GRADER`` more memory than it has, where Linux tells how much that is."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        data = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData"))
        resource.setrlimit(resource.RLIMIT_DATA, (data + MEMORY_OF_A_GRADER, resource.RLIM_INFINITY))


def grade(course: Path, one: dict, options: argparse.Namespace, folder: Path) -> dict:
    """Grade one submission in a process of its own, within limits; never raises."""
    start = time.monotonic()
    try:
        arguments = course, one["student"], one["assignment"], options.seconds, options.memory
        for _ in range(2):  # once more if the grader itself failed: two jobs may want the gradebook at the same time
            result = within(options.limit, folder, arguments)
            if (fault := result.pop("fault", None)) is None:
                break
            with open(course / "grades.log", "a", encoding="utf-8") as file:
                file.write(f"{shown(one['student'])} {one['assignment']}\n{fault}\n")
    except Exception as error:
        result = {"reason": f"the grader failed: {type(error).__name__}"}
    return one | {"number": None, "notes": []} | result | {"seconds": round(time.monotonic() - start, 1)}


def within(limit: float, folder: Path, arguments: tuple) -> dict:
    """What ``report`` sends from another process within ``limit`` seconds; nothing of its is left below ``folder``."""
    receiver, sender = SERVER.Pipe(duplex=False)
    own = tempfile.mkdtemp(dir=folder)
    process = SERVER.Process(target=report, args=(sender, os.getpid(), own, *arguments))
    process.start()
    sender.close()
    try:
        if receiver.poll(limit):
            return receiver.recv()
        return {"reason": f"grading took more than {limit:g} seconds"}
    except EOFError:
        return {"reason": "the grader failed, see grades.log", "fault": "its process ended"}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
        shutil.rmtree(own, ignore_errors=True)


@contextlib.contextmanager
def alone(course: Path) -> Iterator[Path]:
    """A temporary folder, and no other grader in ``course`` meanwhile; what a killed one left behind is removed.

    Raises:
        RuntimeError: if another grader is at work there.
    """
    with open(course / ".grading", "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"another grader is at work in {course}") from None
        file.seek(0)
        for left in map(Path, file.read().splitlines()):
            if left.name.startswith(("grading-", "pymp-")) and left.parent == Path(tempfile.gettempdir()):
                shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="grading-") as folder:
            file.truncate(0)
            file.write(f"{folder}\n{multiprocessing.util.get_temp_dir()}")
            file.flush()
            yield Path(folder)
        file.truncate(0)


def history(course: Path) -> list[dict]:
    """What was graded before, the oldest first."""
    records, log = [], course / "grades.jsonl"
    for line in log.read_text().splitlines() if log.exists() else []:
        with contextlib.suppress(ValueError):  # cut off when an earlier run was killed
            records.append(json.loads(line))
    return records


def grade_class(course: Path, options: argparse.Namespace) -> Path:
    """Grade what is new and write the table; its path.

    Raises:
        RuntimeError: if another grader is at work in ``course``.
        ValueError: if the roster is no table of students, or the folder's nbgrader configuration is of another kind.
    """
    prepare(course)
    with contextlib.chdir(HERE):  # where the fork server finds what it reads; a class has a folder "feedback" too
        forkserver.ensure_running()
    with alone(course) as folder:
        records = history(course)
        last = {(record["student"], record["assignment"]): record for record in records}
        found = submissions(course, options.assignment, options.student)
        waiting = []
        with open(course / "grades.jsonl", "a", encoding="utf-8") as file, ThreadPoolExecutor(options.jobs) as pool:
            if records:
                file.write("\n")  # the last line may have been cut off

            def keep(record: dict) -> None:
                records.append(record)
                file.write(json.dumps(record) + "\n")
                file.flush()

            for one in found:
                before = last.get((one["student"], one["assignment"]), {})
                if one["reason"]:
                    if before.get("reason") != one["reason"]:
                        keep(one | {"number": None, "notes": []})
                elif options.again or before.get("digest") != one["digest"]:
                    waiting.append(one)
            jobs = [pool.submit(grade, course, one, options, folder) for one in waiting]
            for job in tqdm(as_completed(jobs), total=len(jobs), unit="submission"):
                keep(job.result())
    return write_table(course, records, [(one["student"], one["assignment"]) for one in submissions(course)])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("course", nargs="?", type=Path, default=HERE, help="folder of the course; by default this one")
    parser.add_argument("--assignment", help="grade this assignment only")
    parser.add_argument("--student", action="append", help="grade this student only; may be given several times")
    parser.add_argument("--jobs", type=int, default=2, help="submissions at the same time")
    parser.add_argument("--seconds", type=float, default=30, help="for a cell, or the call of a function")
    parser.add_argument("--memory", type=int, default=4096, help="megabytes of address space of a submission")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a whole submission")
    parser.add_argument("--again", action="store_true", help="also what was graded before")
    options = parser.parse_args()
    course = options.course.resolve()
    if not (course / "submitted").is_dir():
        parser.error(f"there is no folder {course / 'submitted'}")
    if bubblewrap() is None:
        print("No working bubblewrap (bwrap): submissions can reach the network and all your files. See README.md.")
    try:
        print(f"Scores: {grade_class(course, options)}; feedback: {course / 'feedback'}")
    except (RuntimeError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
