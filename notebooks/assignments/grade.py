"""Grade every submission of a class: make grade, or

    python grade.py [COURSE] [--assignment NAME] [--jobs 2] [--seconds 30] [--memory 4096] [--limit 600] [--again]

reads COURSE/submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb and writes scores to COURSE/gradebook.db, HTML to
COURSE/feedback/STUDENT/ASSIGNMENT/ and a line per submission to COURSE/grades.csv. What was graded before is not graded
again unless the file changed: a run that was broken off goes on where it stopped.
"""

import argparse
import contextlib
import csv
import hashlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from tqdm import tqdm

HERE = Path(__file__).resolve().parent
SERVER = multiprocessing.get_context("forkserver")  # has read the libraries once, for all submissions
SERVER.set_forkserver_preload(["nbgrader.apps", "submission"])
LARGEST_NOTEBOOK = 50 * 2**20  # bytes
COLUMNS = ["student", "assignment", "score", "max_score", "waiting", "number", "reason", "notes"]


def submissions(course: Path, assignment: str | None) -> list[dict]:
    """The submissions below ``course``, with a digest of each file."""
    found = []
    for folder in sorted((course / "submitted").glob("*/*")):
        if folder.is_dir() and assignment in (None, folder.name):
            path = folder / f"{folder.name}.ipynb"
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found.append({"student": folder.parent.name, "assignment": folder.name, "digest": digest})
    return found


def why_not(course: Path, student: str, assignment: str) -> str:
    """Why a submission cannot be graded; empty if it can be tried."""
    path = course / "submitted" / student / assignment / f"{assignment}.ipynb"
    if not re.fullmatch(r"[\w.@-]+", student):
        return "the name of the student's folder may hold letters, digits and . _ - @ only"
    if not (course / "release" / assignment / f"{assignment}.ipynb").is_file():
        return f"there is no released assignment {assignment}"
    if any(part.is_symlink() for part in (path, path.parent, path.parent.parent)):
        return "a link instead of a file"
    if not path.is_file():
        return f"there is no {assignment}.ipynb"
    if path.stat().st_size > LARGEST_NOTEBOOK:
        return f"the notebook has more than {LARGEST_NOTEBOOK // 2**20} MB"
    return ""


def grade_one(course: Path, student: str, assignment: str, seconds: float, memory: int) -> dict:
    """Grade one submission in this process: why there is no score, notes, number.

    Raises:
        RuntimeError: if nbgrader fails.
    """
    import nbformat

    path = course / "submitted" / student / assignment / f"{assignment}.ipynb"
    try:
        nbformat.validate(nbformat.read(path, as_version=4))
    except Exception as error:
        return {"reason": f"the file is not a notebook: {type(error).__name__}"}

    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config, PyFileConfigLoader

    with tempfile.TemporaryDirectory(prefix="staged-") as staged:
        folder = Path(staged) / student / assignment
        folder.mkdir(parents=True)
        shutil.copyfile(path, folder / path.name)  # and nothing else that was handed in
        config = PyFileConfigLoader(str(HERE / "nbgrader_config.py")).load_config()
        config.CourseDirectory.root = str(course)
        config.CourseDirectory.submitted_directory = staged
        config.PutIntoReleased.released = str(course / "release")
        config.RunAndTest.seconds, config.RunAndTest.memory = seconds, memory
        api = NbGraderAPI(config=Config(config))
        for step in (api.autograde, api.generate_feedback):
            done = step(assignment, student)
            if not done["success"]:
                raise RuntimeError(done.get("log") or done.get("error"))
    graded = nbformat.read(course / "autograded" / student / assignment / path.name, as_version=4)
    return {"reason": "", **graded.metadata["grading"]}


def report(sender: Connection, grader: int, *arguments) -> None:
    """Send what ``grade_one`` returns, or how it failed; its process ends when the process ``grader`` does."""
    os.setsid()

    def watch():
        with contextlib.suppress(ProcessLookupError):
            while True:  # the parent is the fork server, which waits for this process
                os.kill(grader, 0)
                time.sleep(0.5)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)  # what libraries say would break the progress bar
    torch.set_num_threads(1)  # as in the sandbox, so that both compute the same
    try:
        sender.send(grade_one(*arguments))
    except Exception:
        sender.send({"reason": "the grader failed, see grades.log", "fault": traceback.format_exc()})


def grade(course: Path, one: dict, options: argparse.Namespace) -> dict:
    """Grade one submission in a process of its own, within limits; never raises."""
    student, assignment = one["student"], one["assignment"]
    start, result = time.monotonic(), {"reason": why_not(course, student, assignment)}
    if not result["reason"]:
        arguments = course, student, assignment, options.seconds, options.memory
        for _ in range(2):  # once more if the grader itself failed: two jobs may want the gradebook at the same time
            result = within(options.limit, arguments)
            if (fault := result.pop("fault", None)) is None:
                break
            with open(course / "grades.log", "a") as file:
                file.write(f"{student} {assignment}\n{fault}\n")
    return one | {"number": None, "notes": []} | result | {"seconds": round(time.monotonic() - start, 1)}


def within(limit: float, arguments: tuple) -> dict:
    """What ``report`` sends from another process within ``limit`` seconds."""
    receiver, sender = SERVER.Pipe(duplex=False)
    process = SERVER.Process(target=report, args=(sender, os.getpid(), *arguments))
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


def write_table(course: Path, records: dict) -> Path:
    """The class in one table, with the scores as they stand in the gradebook, points given by hand included."""
    from nbgrader.api import Gradebook, MissingEntry

    holders = {}
    for record in records.values():
        if record["number"] is not None:
            holders.setdefault((record["assignment"], record["number"]), []).append(record["student"])
    path = course / "grades.csv"
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook, open(path, "w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        for (student, assignment), record in sorted(records.items()):
            notes, row = list(record["notes"]), {"score": "", "max_score": "", "waiting": ""}
            others = [s for s in holders.get((assignment, record["number"]), []) if s != student]
            if others:
                notes.append(f"same student number as {len(others)} more: {', '.join(sorted(others)[:3])}")
            if not record["reason"]:
                try:
                    found = gradebook.find_submission(assignment, student)
                    waiting = sum(g.max_score for n in found.notebooks for g in n.grades if g.needs_manual_grade)
                    row = {"score": found.score, "max_score": found.max_score, "waiting": waiting}
                except MissingEntry:
                    record = record | {"reason": "not in the gradebook"}
            number = "" if record["number"] is None else record["number"]
            row |= {"student": student, "assignment": assignment, "number": number}
            table.writerow(row | {"reason": record["reason"], "notes": "; ".join(notes)})
    return path


def grade_class(course: Path, options: argparse.Namespace) -> Path:
    """Grade what is new and write the table; its path."""
    log = course / "grades.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    records = {}
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # cut off when an earlier run was killed
        records[record["student"], record["assignment"]] = record
    waiting = [
        one
        for one in submissions(course, options.assignment)
        if options.again or records.get((one["student"], one["assignment"]), {}).get("digest") != one["digest"]
    ]
    with ThreadPoolExecutor(options.jobs) as pool, open(log, "a") as file:
        if lines:
            file.write("\n")  # the last line may have been cut off
        jobs = [pool.submit(grade, course, one, options) for one in waiting]
        for job in tqdm(as_completed(jobs), total=len(jobs), unit="submission"):
            record = job.result()
            records[record["student"], record["assignment"]] = record
            file.write(json.dumps(record) + "\n")
            file.flush()
    return write_table(course, records)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("course", nargs="?", type=Path, default=HERE, help="folder of the course; by default this one")
    parser.add_argument("--assignment", help="grade this assignment only")
    parser.add_argument("--jobs", type=int, default=2, help="submissions at the same time")
    parser.add_argument("--seconds", type=float, default=30, help="for a cell, or the call of a function")
    parser.add_argument("--memory", type=int, default=4096, help="megabytes of address space of a submission")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a whole submission")
    parser.add_argument("--again", action="store_true", help="also what was graded before")
    options = parser.parse_args()
    course = options.course.resolve()
    if not (course / "submitted").is_dir():
        parser.error(f"there is no folder {course / 'submitted'}")
    from sandbox import bubblewrap

    if bubblewrap() is None:
        print("No working bubblewrap (bwrap): submissions can reach the network and all your files. See README.md.")
    print(f"Scores: {grade_class(course, options)}; feedback: {course / 'feedback'}")


if __name__ == "__main__":
    main()
