"""A Jupyter kernel for the code of a submission: confined, limited in time, memory, output; replaced when it dies.

Nothing that comes out of it is believed. What it shows is rebuilt from the few kinds of output that a page needs, its
messages are limited in number and size, and one that cannot be read ends its process.
"""

import ast
import base64
import builtins
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import cloudpickle
import psutil
import zmq
from jupyter_client.session import Session
from nbformat import NotebookNode
from nbformat.v4 import new_output

import posenc_lib
import wire

MEGABYTE = 2**20
LARGEST_MESSAGE = 16 * MEGABYTE  # of each part
UNREAD_MESSAGES = 2  # that zmq keeps for the grader
LARGEST_TEXT, ALL_TEXT = 100_000, 2_000_000  # characters of a cell, and of all cells, that are kept
LARGEST_PICTURES, ALL_PICTURES = 4 * MEGABYTE, 20 * MEGABYTE  # the same, as base64
MOST_OUTPUTS = 200  # of a cell
LARGEST_ERROR = 2_000  # characters of an error's words
SHOWN = ("text/plain", "text/html", "text/markdown", "text/latex", "image/png", "image/jpeg")
GRACE = 3  # seconds that an interrupted cell may take to stop
START_LIMIT = 60
RESTARTS = 3

# What a kernel must see of the machine. Nothing else is there: no home, no gradebook, no masters, no other submission.
VISIBLE = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts"]
INSIDE = "/scratch"
LIBRARY = Path(posenc_lib.__file__).parent
EXERCISES = ("__init__.py", "check.py", "graded.py")  # the others hold the answers of the notebooks
PORTS = {"shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5}


@cache
def bubblewrap() -> str | None:
    """The path of a bubblewrap that works here; None if there is none."""
    program = shutil.which("bwrap")
    if program is None:
        return None
    probe = [program, *namespaces(program), "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    return program if subprocess.run(probe, capture_output=True).returncode == 0 else None


@cache
def namespaces(program: str) -> list[str]:
    """The options of bubblewrap that take everything away; versions before 0.8 cannot forbid further namespaces."""
    told = subprocess.run([program, "--help"], capture_output=True, text=True).stdout
    return ["--unshare-all", *(["--unshare-user", "--disable-userns"] if "--disable-userns" in told else [])]


def confined_command(command: list[str], folder: Path, memory: int) -> list[str]:
    """``command`` with limited memory and, where bubblewrap works, without network and without the rest of the disk.

    Args:
        command: what to run.
        folder: it may read, and write to only without bubblewrap.
        memory: bytes of address space for each of its processes.
    """
    limits = f"ulimit -v {memory // 1024}; ulimit -f {200 * MEGABYTE // 512}; ulimit -c 0"
    limited = ["sh", "-c", f'{limits}; exec "$@"', "sh"]
    if (program := bubblewrap()) is None:
        return [*limited, *command]
    environment = {"PATH": "/usr/bin:/bin", "HOME": INSIDE, "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    box = [program, *namespaces(program), "--die-with-parent", "--clearenv"]
    box += [part for name, value in environment.items() for part in ("--setenv", name, value)]
    box += ["--proc", "/proc", "--dev", "/dev", *in_memory("/dev/shm", 64), "--remount-ro", "/dev"]
    box += [*in_memory("/tmp", 256), *in_memory(INSIDE, 256)]
    for path in dict.fromkeys([*VISIBLE, sys.prefix, sys.base_prefix, str(LIBRARY), str(folder)]):
        box += ["--ro-bind-try", path, path]  # may lie below /tmp
    exercises = LIBRARY / "exercises"
    box += in_memory(str(exercises), 1)
    for name in EXERCISES:
        box += ["--ro-bind", str(exercises / name), str(exercises / name)]
    box += ["--remount-ro", str(exercises), "--remount-ro", "/", "--chdir", INSIDE]
    return [*limited, *box, *command]


def in_memory(path: str, megabytes: int) -> list[str]:
    """The options of bubblewrap for an empty folder that holds so much and no more."""
    return ["--size", str(megabytes * MEGABYTE), "--tmpfs", path]


class Remote:
    """A function of the submission, called in the submission's own process."""

    def __init__(self, kernel: "ConfinedKernel", name: str):
        self.kernel, self.__name__ = kernel, name

    def __call__(self, *positional, **named):
        """What the function returns. Its errors are raised here under their own names."""
        arguments = base64.b64encode(cloudpickle.dumps((positional, named))).decode()
        return self.kernel.evaluate(f"call(globals(), {self.__name__!r}, {arguments!r})")


class ConfinedKernel:
    """Runs the cells of one submission; use it in a ``with`` statement.

    Args:
        seconds: that a cell or the call of a function may take.
        memory: bytes of address space for each process.
    """

    def __init__(self, seconds: float, memory: int):
        self.seconds, self.memory = seconds, memory
        self.notes: list[str] = []
        self.place = ""  # where in the notebook it is, for the notes
        self.replayed: list[str] = []  # what a new kernel is told to stand where the old one stood
        self.restarts = 0
        self.room = {"text": ALL_TEXT, "picture": ALL_PICTURES}

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_):
        self._stop()

    def run(self, source: str) -> list[NotebookNode]:
        """The outputs of a cell."""
        outputs, _, trouble = self._execute(source)
        if trouble:
            outputs.append(new_output("error", ename="Stopped", evalue=trouble, traceback=[trouble]))
        else:
            self.replayed.append(source)
        return outputs

    def look_up(self, name: str):
        """A value or a ``Remote`` function of the submission.

        Raises:
            NameError: if the submission does not define it.
        """
        answer = self._ask(f"look_up(globals(), {name!r})")
        if "value" in answer:
            return wire.unpack(answer["value"])
        if answer.get("function"):
            return Remote(self, name)
        raise NameError(f"{name} is not defined")

    def evaluate(self, expression: str):
        """The value of a function of ``wire`` in the kernel."""
        return wire.unpack(self._ask(expression)["value"])

    def _ask(self, expression: str) -> dict:
        module = "__import__('sys').modules['posenc_wire']"
        _, reply, trouble = self._execute("", {"answer": f"{module}.{expression}"})
        if trouble:
            raise TimeoutError(trouble)
        answer = reply.get("answer", {})
        if answer.get("status") == "error":
            name, words = (readable(answer.get(part), LARGEST_ERROR) for part in ("ename", "evalue"))
            kind = getattr(builtins, name, None)
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                kind = type(name.replace("\0", ""), (Exception,), {})
            raise kind(words)
        try:
            text = answer["data"]["text/plain"]
            return dict(json.loads(ast.literal_eval(text[: 2 * wire.LARGEST])))
        except Exception:
            raise TypeError("the answer cannot be read") from None

    def _start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kernel-"))
        scratch, described = self.folder / "scratch", self.folder / "kernel.json"
        scratch.mkdir()
        within = INSIDE if bubblewrap() else str(self.folder)
        key = secrets.token_hex()
        connection = {"transport": "ipc", "ip": f"{within}/kernel", "key": key, "signature_scheme": "hmac-sha256"}
        described.write_text(json.dumps(connection | PORTS))
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", str(described)]
        command += ["--HistoryManager.enabled=False", "--InteractiveShell.colors=nocolor"]
        self.process = subprocess.Popen(
            confined_command(command, self.folder, self.memory),
            cwd=scratch,
            env=os.environ | {"JPY_PARENT_PID": str(os.getpid())},  # without bubblewrap, it ends when this process does
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.session, self.context, self.legible = Session(key=key.encode()), zmq.Context(), True
        self._connect(within)
        load = f"import sys, types; m = types.ModuleType('posenc_wire'); exec({Path(wire.__file__).read_text()!r}, "
        message = self._send(f"{load}m.__dict__); sys.modules['posenc_wire'] = m; del m, types, sys")
        if self._collect(message, START_LIMIT)[1] is None:
            raise RuntimeError("the kernel did not start")

    def _connect(self, within: str) -> None:
        """Open the three channels, before any code of the submission runs, and wait until they carry messages."""
        self.reached = Path(within)
        if bubblewrap():  # its folders are seen through its first process: none of them lies on a disk
            first = self._wait(psutil.Process(self.process.pid).children)[0]
            self.reached = Path(f"/proc/{first.pid}/root{within}")
        self._wait(lambda: all((self.reached / f"kernel-{port}").exists() for port in PORTS.values()))
        time.sleep(0.1)  # from its socket being there to its listening
        self.shell, self.control = self._channel(zmq.DEALER, "shell_port"), self._channel(zmq.DEALER, "control_port")
        self._listen()

    def _listen(self) -> None:
        """Open the channel of outputs, anew where it was: zmq closes it when a message is too long."""
        self.iopub = self._channel(zmq.SUB, "iopub_port")

        def heard():
            self.session.send(self.shell, "kernel_info_request")
            return self.iopub.poll(200)

        self._wait(heard)

    def _wait(self, done):
        """What ``done`` answers, once it is something."""
        deadline = time.monotonic() + START_LIMIT
        while not (found := done()):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError("the kernel did not start")
            time.sleep(0.02)
        return found

    def _channel(self, kind: int, port: str) -> zmq.Socket:
        socket = self.context.socket(kind)
        socket.linger, socket.rcvhwm, socket.maxmsgsize = 0, UNREAD_MESSAGES, LARGEST_MESSAGE
        if kind == zmq.SUB:
            socket.subscribe("")
        else:
            socket.reconnect_ivl = -1  # a submission could put another socket into this place
        socket.connect(f"ipc://{self.reached}/kernel-{PORTS[port]}")
        return socket

    def _stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.context.destroy(linger=0)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _send(self, source: str, expressions: dict | None = None) -> str:
        """Ask for ``source`` to be run; the name of the request."""
        content = {"code": source, "silent": expressions is not None, "store_history": False, "allow_stdin": False}
        content |= {"user_expressions": expressions or {}, "stop_on_error": False}
        return self.session.send(self.shell, "execute_request", content)["header"]["msg_id"]

    def _execute(self, source: str, expressions: dict | None = None) -> tuple[list[NotebookNode], dict, str]:
        """Outputs, what the expressions are, and what stopped it, if anything did."""
        if self.restarts > RESTARTS:
            return [], {}, f"not run: the process had been replaced {RESTARTS} times"
        message = self._send(source, expressions)
        outputs, reply = self._collect(message, self.seconds)
        trouble = ""
        if reply is None and not self.legible:
            trouble = "the process sent messages that cannot be read"
        elif reply is None and self.process.poll() is None:
            trouble = f"stopped after {self.seconds:g} seconds"
            self.session.send(self.control, "interrupt_request")
            more, reply = self._collect(message, GRACE)
            outputs += more
            if reply is None:
                trouble = f"took more than {self.seconds:g} seconds and did not stop when interrupted"
        elif reply is None:
            trouble = "the process ended: it left, crashed or ran out of memory"
        if trouble:
            self.notes.append(f"{self.place}: {trouble}")
        if reply is None:
            self._replace()
        return outputs, reply or {}, trouble

    def _replace(self) -> None:
        """A new kernel that has run every cell but the one that ended the old kernel."""
        self._stop()
        self.restarts += 1
        if self.restarts > RESTARTS:
            return
        self._start()
        for source in self.replayed:
            self._collect(self._send(source), self.seconds)

    def _collect(self, message: str, seconds: float) -> tuple[list[NotebookNode], dict | None]:
        """What a request showed and the values of its expressions; None if it ran out of time or its kernel died."""
        shown, idle, reply = Shown(self.room), False, None
        poller = zmq.Poller()
        for channel in (self.shell, self.iopub):
            poller.register(channel, zmq.POLLIN)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not (idle and reply is not None):
            ready = dict(poller.poll(100 if reply is None else 1000))
            if not ready:
                if reply is not None:  # the word that it is idle was lost in a flood
                    self.iopub.close()
                    with contextlib.suppress(RuntimeError):  # it may have ended meanwhile
                        self._listen()
                    break
                if self.process.poll() is not None:
                    break
                continue
            try:
                for channel in ready:
                    _, news = self.session.recv(channel)
                    if news is None or news["parent_header"].get("msg_id") != message:
                        continue
                    content = news["content"]
                    if channel is self.shell:
                        reply = dict(content.get("user_expressions") or {})
                    elif news["msg_type"] == "status":
                        idle = content["execution_state"] == "idle"
                    else:
                        shown.add(news["msg_type"], content)
            except Exception:  # whatever a forged message makes of the lines above
                self.legible = False
                return shown.outputs, None
        return shown.outputs, reply


class Shown:
    """The outputs of a cell, as far as they are kept.

    Args:
        room: characters that may still be kept of the whole submission; what is kept is taken off.
    """

    def __init__(self, room: dict[str, int]):
        self.outputs: list[NotebookNode] = []
        self.room, self.left = room, {"text": LARGEST_TEXT, "picture": LARGEST_PICTURES}
        self.full = self.cut = self.failed = False

    def add(self, kind: str, content: dict) -> None:
        """Keep a message of a kernel, if it is one that shows something and there is room."""
        if kind == "error" and not self.failed:
            self.failed = True  # a cell ends with its first error
            name, words = readable(content["ename"], 100), readable(content["evalue"], LARGEST_ERROR)
            lines = self._take("text", "\n".join(map(str, content["traceback"]))).split("\n")
            self.outputs.append(new_output("error", ename=name, evalue=words, traceback=lines))
        elif len(self.outputs) >= MOST_OUTPUTS:
            self.full = True
        elif kind == "stream":
            self._print(self._take("text", content["text"]), "stderr" if content["name"] == "stderr" else "stdout")
        elif kind in ("display_data", "execute_result"):
            data = {}
            for mime in SHOWN:
                if isinstance(text := content["data"].get(mime), str):
                    data[mime] = self._take("picture" if mime.startswith("image/") else "text", text)
            if data := {mime: text for mime, text in data.items() if text}:
                self.outputs.append(new_output("display_data", data))
        if self.full and not self.cut:
            self.cut = True
            self._print("\n[the output was too long; it is cut here]\n", "stderr")

    def _take(self, kind: str, text: str) -> str:
        """As much of ``text`` as there is room for; a picture whole or not at all."""
        left = min(self.left[kind], self.room[kind])
        if len(text) > left:
            self.full = True
            text = text[: left if kind == "text" else 0]
        for rooms in (self.left, self.room):
            rooms[kind] -= len(text)
        return readable(text, len(text))

    def _print(self, text: str, name: str) -> None:
        last = self.outputs[-1] if self.outputs else None
        if last and last.output_type == "stream" and last.name == name:
            last.text += text
        elif text:
            self.outputs.append(new_output("stream", name=name, text=text))


def readable(text: object, most: int) -> str:
    """At most so many characters of ``text``, all of which can be written to a file."""
    return str(text)[:most].encode(errors="replace").decode()
