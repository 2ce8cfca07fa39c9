"""Try the course on a JupyterHub of this machine (Linux): learners log in, and all run a notebook at the same time.

    python try_hub.py [--learners 10] [--notebook 07_nezha.ipynb] [--assignment 02_sinusoidal] [--limit 3600]

prints how many came to the end, how long it took and how much memory a learner needs. Then an assignment goes through
nbgrader's exchange: released, fetched, done, submitted, collected and graded. Everything is bound to 127.0.0.1 and
stays in a temporary folder; nothing is left afterwards. The exit status is 0 if every learner came to the end and the
assignment got full marks. Needs requirements.txt of this folder and npm, which installs the hub's proxy once.
"""

import argparse
import csv
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import nbformat
import psutil
import requests
import websocket
from nbformat import NotebookNode
from tqdm import tqdm
from traitlets.config import PyFileConfigLoader

HERE = Path(__file__).resolve().parent
ASSIGNMENTS, NOTEBOOKS = HERE.parent, HERE.parents[1]
PROXY = "configurable-http-proxy"
PROXY_VERSION = "5.2.0"  # the last that asks for no more than Node 20
PROXY_PROGRAM = Path(sys.prefix) / "node_modules" / ".bin" / PROXY
START_LIMIT = 600  # seconds for the hub, and for a learner's server
CLASS_ACCOUNT = "grading"  # as in jupyterhub_config.py


def install_proxy() -> None:
    """Let npm install the hub's proxy beside the packages of this Python, unless it is there.

    Raises:
        RuntimeError: if npm is missing or fails.
    """
    if PROXY_PROGRAM.exists():
        return
    if shutil.which("npm") is None:
        raise RuntimeError("no npm found, which installs the hub's proxy: install Node.js 20 or newer")
    package = f"{PROXY}@{PROXY_VERSION}"
    command = ["npm", "install", "--prefix", sys.prefix, "--no-save", "--no-fund", "--no-audit", package]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"npm cannot install {package}: {done.stderr}")


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody uses."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Hub:
    """A JupyterHub; use it in a ``with`` statement.

    Args:
        folder: where it writes everything.
        notebooks: what each learner finds in the folder "course".
    """

    def __init__(self, folder: Path, notebooks: Path = NOTEBOOKS):
        self.folder, self.notebooks, self.log = folder, notebooks, folder / "hub.log"

    def __enter__(self):
        public, internal, api = free_ports(3)
        self.url = f"http://127.0.0.1:{public}"
        command = [sys.executable, "-m", "jupyterhub", "-f", str(HERE / "jupyterhub_config.py")]
        command += [f"--JupyterHub.bind_url={self.url}", f"--JupyterHub.hub_port={internal}"]
        command += [f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{api}"]
        command += [f"--ConfigurableHTTPProxy.command={PROXY_PROGRAM}"]
        course = PyFileConfigLoader(str(ASSIGNMENTS / "nbgrader_config.py")).load_config().CourseDirectory.course_id
        (self.folder / "exchange").mkdir()
        (self.folder / "exchange").chmod(0o777)
        variables = {"HUB_FOLDER": str(self.folder), "HUB_NOTEBOOKS": str(self.notebooks), "HUB_COURSE": course}
        with open(self.log, "w") as log:
            self.process = psutil.Popen(
                command, cwd=self.folder, env=os.environ | variables, stdout=log, stderr=log, start_new_session=True
            )
        try:
            wait_until(self.answers, START_LIMIT)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def answers(self) -> bool:
        """Whether the hub is up.

        Raises:
            RuntimeError: if it ended.
        """
        if self.process.poll() is not None:
            raise RuntimeError(f"the hub ended:\n{self.log.read_text()}")
        try:
            return session().get(f"{self.url}/hub/api/", timeout=5).ok
        except requests.ConnectionError:
            return False

    def stop(self) -> None:
        """End the hub and every process below it."""
        below = self.process.children(recursive=True) if self.process.is_running() else []
        self.process.terminate()
        _, alive = psutil.wait_procs([self.process, *below], timeout=20)
        for process in alive:
            process.kill()
        psutil.wait_procs(alive)

    def memory(self) -> dict[str, float]:
        """Megabytes by learner, of the hub and of its proxy: a page that several processes share counts in parts."""
        found = {"hub": self.process.memory_full_info().pss / 2**20}
        for process in self.process.children(recursive=True):
            try:
                owner = process.environ().get("JUPYTERHUB_USER", "proxy")
                found[owner] = found.get(owner, 0) + process.memory_full_info().pss / 2**20
            except psutil.Error:
                pass  # it has just ended
        return found


class Watch:
    """Records the largest memory of each learner, of the hub and of the proxy, while a ``with`` statement lasts."""

    def __init__(self, hub: Hub):
        self.hub, self.peak, self.done = hub, {}, threading.Event()
        self.thread = threading.Thread(target=self.record)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def record(self) -> None:
        """Look once a second."""
        while not self.done.wait(1):
            for owner, size in self.hub.memory().items():
                self.peak[owner] = max(size, self.peak.get(owner, 0))


def wait_until(condition, seconds: float) -> None:
    """Ask ``condition()`` until it holds.

    Raises:
        TimeoutError: if it does not within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing after {seconds:g} seconds")
        time.sleep(0.5)


def session() -> requests.Session:
    """A browser's memory of cookies, which no proxy of this machine sees."""
    new = requests.Session()
    new.trust_env = False
    return new


class Learner:
    """Somebody with an account, who talks to the hub over HTTP.

    Args:
        hub: where.
        name: of the account; logs in at once.
        account: whose server this one uses; by default the own.
    """

    def __init__(self, hub: Hub, name: str, account: str | None = None):
        self.name, self.account, self.api = name, account or name, f"{hub.url}/hub/api/users"
        self.server = f"{hub.url}/user/{self.account}/api"
        self.http = session()
        self.http.get(f"{hub.url}/hub/login", timeout=60).raise_for_status()
        form = {"username": name, "password": "", "_xsrf": self.http.cookies["_xsrf"]}
        self.http.post(f"{hub.url}/hub/login", data=form, timeout=60, allow_redirects=False).raise_for_status()
        headers = {"X-XSRFToken": self.http.cookies["_xsrf"]}
        token = self.ask("POST", f"{self.api}/{name}/tokens", headers=headers)["token"]
        self.http = session()
        self.http.headers["Authorization"] = f"token {token}"

    def ask(self, method: str, url: str, **options) -> dict:
        """What the hub or a server answers.

        Raises:
            requests.HTTPError: if it refuses.
        """
        answer = self.http.request(method, url, timeout=START_LIMIT, **options)
        answer.raise_for_status()
        return answer.json() if answer.content else {}

    def start(self) -> None:
        """Start the server, unless it runs, and wait until it is there.

        Raises:
            RuntimeError: if it does not start.
        """
        if not self.ask("GET", f"{self.api}/{self.account}")["servers"]:
            self.ask("POST", f"{self.api}/{self.account}/server")
        wait_until(self.is_there, START_LIMIT)

    def stop(self) -> None:
        """End the server and wait until it is gone."""
        self.ask("DELETE", f"{self.api}/{self.account}/server")
        wait_until(lambda: not self.ask("GET", f"{self.api}/{self.account}")["servers"], START_LIMIT)

    def is_there(self) -> bool:
        """Whether the server is up."""
        server = self.ask("GET", f"{self.api}/{self.account}")["servers"].get("")
        if server is None:
            raise RuntimeError(f"the server of {self.account} did not start")
        return server["ready"]

    def read(self, path: str) -> NotebookNode:
        """A notebook of the server."""
        return nbformat.from_dict(self.ask("GET", f"{self.server}/contents/{path}")["content"])

    def write(self, path: str, notebook: NotebookNode) -> None:
        """Save a notebook on the server."""
        self.ask("PUT", f"{self.server}/contents/{path}", json={"type": "notebook", "content": notebook})

    def command(self, *words: str, limit: float = 600) -> str:
        """Run a command in the learner's home, in a kernel of the server; what it printed.

        Raises:
            RuntimeError: if it fails.
        """
        run = f"import subprocess; done = subprocess.run({words!r}, capture_output=True, text=True)"
        with closing(Kernel(self, "command.ipynb", limit)) as kernel:
            error = kernel.execute(f"{run}\nprint(done.stdout + done.stderr)\ndone.check_returncode()")
        if error:
            raise RuntimeError(f"{self.account}: {' '.join(words)}: {error}\n{kernel.printed}")
        return kernel.printed


class Kernel:
    """A new kernel of a learner's server, and the connection to it.

    Args:
        learner: who has started the server.
        path: of the notebook there.
        limit: seconds that the kernel is used.
    """

    def __init__(self, learner: Learner, path: str, limit: float):
        self.learner, self.limit, self.deadline, self.printed = learner, limit, time.monotonic() + limit, ""
        wanted = {"path": path, "name": path, "type": "notebook", "kernel": {"name": "python3"}}
        self.session = learner.ask("POST", f"{learner.server}/sessions", json=wanted)
        address = f"{learner.server}/kernels/{self.session['kernel']['id']}/channels".replace("http", "ws", 1)
        headers = {"Authorization": learner.http.headers["Authorization"]}
        self.socket = websocket.create_connection(address, header=headers, timeout=60)

    def close(self) -> None:
        """End the kernel."""
        self.socket.close()
        try:
            self.learner.ask("DELETE", f"{self.learner.server}/sessions/{self.session['id']}")
        except requests.HTTPError as error:
            if error.response.status_code != 404:  # it is gone already
                raise

    def execute(self, source: str) -> str:
        """Run a cell; its error, or nothing.

        Raises:
            websocket.WebSocketException: if the connection ends.
            RuntimeError: if the kernel ends.
            TimeoutError: if the time is over.
        """
        header = {"msg_id": uuid.uuid4().hex, "session": uuid.uuid4().hex, "username": "", "version": "5.3"}
        header["msg_type"] = "execute_request"
        content = {"code": source, "silent": False, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        self.socket.send(json.dumps(message))
        idle, reply = False, None
        while not idle or reply is None:
            if (left := self.deadline - time.monotonic()) <= 0:
                raise TimeoutError(f"not done after {self.limit:g} seconds")
            self.socket.settimeout(left)
            try:
                opcode, frame = self.socket.recv_data_frame(control_frame=True)  # a ping, too, is time gone by
            except websocket.WebSocketTimeoutException:
                continue
            if opcode != websocket.ABNF.OPCODE_TEXT:
                continue  # also a picture of a widget; what is waited for comes as text
            answer = json.loads(frame.data)
            if answer["content"].get("execution_state") in ("restarting", "dead"):
                raise RuntimeError("the kernel died: it crashed or ran out of memory")
            if answer["parent_header"].get("msg_id") == header["msg_id"]:
                kind, content = answer["msg_type"], answer["content"]
                if kind == "stream":
                    self.printed += content["text"]
                elif kind == "status":
                    idle = content["execution_state"] == "idle"
                elif kind == "execute_reply":
                    reply = content
        return "" if reply["status"] == "ok" else f"{reply.get('ename')}: {reply.get('evalue')}"


class Visit:
    """A learner who comes to the hub and runs a notebook of the course to its end."""

    def __init__(self, hub: Hub, name: str):
        self.hub, self.name, self.kernel, self.seconds = hub, name, None, 0.0
        self.lost = self.failed = ""  # why the end was not reached; the first cell that failed

    def attempt(self, step, *arguments) -> None:
        """Do ``step`` unless an earlier one failed; keep why it failed, and the seconds that it took."""
        if self.lost:
            return
        start = time.monotonic()
        try:
            step(*arguments)
        except Exception as error:
            self.lost = f"{type(error).__name__}: {error}"
        self.seconds = time.monotonic() - start

    def arrive(self) -> None:
        """Log in and start the server."""
        self.learner = Learner(self.hub, self.name)
        self.learner.start()

    def run(self, notebook: str, limit: float, progress) -> None:
        """Open the notebook and run every cell; the kernel stays."""
        path = f"course/{notebook}"
        cells = self.learner.read(path).cells
        self.kernel = Kernel(self.learner, path, limit)
        for cell in cells:
            if cell.cell_type == "code":
                error = self.kernel.execute(cell.source)
                self.failed = self.failed or error
                progress.update()


def run_at_once(hub: Hub, count: int, notebook: str, limit: float) -> bool:
    """Let ``count`` learners run a notebook at the same time; print a table; whether all came to the end."""
    visits = [Visit(hub, f"learner{number:02}") for number in range(1, count + 1)]
    cells = nbformat.read(hub.notebooks / notebook, as_version=4).cells
    progress = tqdm(total=count * sum(cell.cell_type == "code" for cell in cells), unit="cell")
    with ThreadPoolExecutor(count) as pool, progress, Watch(hub) as watch:
        list(pool.map(lambda visit: visit.attempt(visit.arrive), visits))
        starts, started = [visit.seconds for visit in visits], hub.memory()
        list(pool.map(lambda visit: visit.attempt(visit.run, notebook, limit, progress), visits))
        time.sleep(3)
        idle = hub.memory()
    for visit in visits:
        if visit.kernel:
            visit.kernel.close()

    lost, failed = ([visit for visit in visits if getattr(visit, kind)] for kind in ("lost", "failed"))
    good = [visit for visit in visits if not visit.lost and not visit.failed]
    print(f"{count} learners at once, {notebook}, {os.cpu_count()} cores")
    print(f"  finished without an error   {len(good)}")
    print(f"  finished with a failed cell {len(failed)}")
    print(f"  lost                        {len(lost)}")
    for visit in lost + failed:
        print(f"    {visit.name}: {visit.lost or visit.failed}")
    if good:
        times = [visit.seconds for visit in good]
        print(f"  seconds until the server is there: {spread(starts)}")
        print(f"  seconds for the notebook:          {spread(times)}")
        print("  megabytes of a learner (shared pages in parts):")
        for moment, sizes in [("server only", started), ("at most", watch.peak), ("idle afterwards", idle)]:
            print(f"    {moment:<31}  {spread([sizes[visit.name] for visit in good])}")
        print(f"  megabytes of the hub at most {watch.peak['hub']:.0f}, of its proxy {watch.peak['proxy']:.0f}")
    return len(good) == count


def spread(numbers: list[float]) -> str:
    """The middle and the largest of some numbers."""
    return f"median {statistics.median(numbers):.0f}, largest {max(numbers):.0f}"


def send_around(hub: Hub, source: Path) -> dict[str, str]:
    """Let the assignment in the folder ``source`` go to a learner and back; its row in the table of grades.

    Every step is a process of the teacher's or of the learner's server. The learner writes the master's answers.
    """
    assignment, home = source.name, hub.folder / "homes" / CLASS_ACCOUNT
    teacher, learner = Learner(hub, "teacher", CLASS_ACCOUNT), Learner(hub, "student")
    teacher.start()
    learner.start()
    nbgrader, python = (sys.executable, "-m", "nbgrader"), sys.executable
    shutil.copytree(source, home / "source" / assignment)
    teacher.command(python, str(ASSIGNMENTS / "release.py"), ".")
    teacher.stop()
    teacher.start()  # Formgrader has now the configuration that release.py wrote
    teacher.command(*nbgrader, "release_assignment", assignment)

    learner.command(*nbgrader, "fetch_assignment", assignment)
    path = f"{assignment}/{assignment}.ipynb"
    notebook = learner.read(path)
    master = nbformat.read(home / "source" / path, as_version=4)
    answers = {cell.metadata.nbgrader.grade_id: cell.source for cell in master.cells if "nbgrader" in cell.metadata}
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = answers[cell.metadata.nbgrader.grade_id]
    learner.write(path, notebook)
    learner.command(*nbgrader, "submit", assignment)

    teacher.command(*nbgrader, "collect", assignment)
    teacher.command(python, str(ASSIGNMENTS / "grade.py"), ".")
    with open(home / "grades.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    return row


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learners", type=int, default=10, help="who work at the same time")
    parser.add_argument("--notebook", default="07_nezha.ipynb", help="of the course, which all of them run")
    parser.add_argument("--assignment", default="02_sinusoidal", help="that goes through the exchange")
    parser.add_argument("--limit", type=float, default=3600, help="seconds for a learner's notebook")
    options = parser.parse_args()
    for name, path in [("notebook", NOTEBOOKS), ("assignment", ASSIGNMENTS / "source")]:
        if not (path / (value := getattr(options, name))).exists():
            parser.error(f"--{name} must name one in {path}, got {value!r}")
    if options.learners < 1:
        parser.error(f"--learners must be at least 1, got {options.learners}")
    try:
        install_proxy()
    except RuntimeError as error:
        sys.exit(str(error))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # and not without closing the hub
    with tempfile.TemporaryDirectory(prefix="hub-") as folder, Hub(Path(folder)) as hub:
        all_finished = run_at_once(hub, options.learners, options.notebook, options.limit)
        row = send_around(hub, ASSIGNMENTS / "source" / options.assignment)
    points = ", ".join(f"{name} {row[name]}" for name in ("score", "waiting", "max_score", "reason") if row[name])
    print(f"{options.assignment} through the exchange: {points}")
    sys.exit(0 if all_finished and full_marks(row) else 1)


def full_marks(row: dict[str, str]) -> bool:
    """Whether a row of the table of grades has all points but those that are given by hand."""
    return not row["reason"] and float(row["score"]) == float(row["max_score"]) - float(row["waiting"])


if __name__ == "__main__":
    main()
